import { readDirectory, readlink, readTextFile } from "../libc/mod.ts"

/**
 * A path for each network namespace that is mounted, or that a process is in, as /proc shows them. What keeps a
 * namespace by a descriptor alone, or in another mount and PID namespace, is not seen.
 */
export function listNamespaces(): string[] {
  const paths = new Map<string, string>()
  for (const line of readTextFile("/proc/self/mountinfo").split("\n")) {
    // "536 27 0:4 net:[4026532281] /run/netns/NAME rw shared:2 - nsfs nsfs rw"; white space of a path is in octal
    const [, , , id = "", path = ""] = line.split(" ")
    const unescaped = path.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
    if (id.startsWith("net:[")) paths.set(id, unescaped)
  }
  for (const entry of readDirectory("/proc")) {
    const path = `/proc/${entry}/ns/net`
    const id = /^\d+$/.test(entry) ? findTarget(path) : undefined
    if (id !== undefined && !paths.has(id)) paths.set(id, path)
  }
  return [...paths.values()]
}

/** Undefined when the process has ended, or is not ours to look at. */
function findTarget(path: string): string | undefined {
  try {
    return readlink(path)
  } catch {
    return undefined
  }
}
