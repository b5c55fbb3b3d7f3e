import { readdirSync, readlinkSync } from "node:fs"

/**
 * Returns the open sockets and namespaces of this process, as descriptor number and target. The list may include
 * sockets to programs that this process has started.
 */
export function openInKernel(kind = /socket:|net:|\/netns\//): string[] {
  const links = readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return `${fd} ${readlinkSync(`/proc/self/fd/${fd}`)}`
    } catch {
      return [] // the descriptor of the directory itself
    }
  })
  return links.filter((link) => kind.test(link))
}

/** Returns the sockets and namespaces that are open now and were not open before. */
export function leftOpen(before: readonly string[], kind?: RegExp): string[] {
  return openInKernel(kind).filter((one) => !before.includes(one))
}
