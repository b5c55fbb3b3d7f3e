import { readdirSync, readlinkSync } from "node:fs"

/**
 * Returns the open sockets and namespaces of this process, each as its number and type, or those of one kind. Some of
 * the sockets may belong to programs that it has run.
 */
export function openInKernel(kind = /socket:|net:|\/netns\//): string[] {
  const links = readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return `${fd} ${readlinkSync(`/proc/self/fd/${fd}`)}`
    } catch {
      return [] // the directory's own
    }
  })
  return links.filter((link) => kind.test(link))
}

/** Open files of that kind that were not open before; the former ones may be closed at any time. */
export function leftOpen(before: readonly string[], kind?: RegExp): string[] {
  return openInKernel(kind).filter((one) => !before.includes(one))
}
