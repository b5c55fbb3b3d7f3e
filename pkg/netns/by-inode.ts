import { findStat, readDirectory, readTextFile, unlessErrno } from "../libc/mod.ts"

/**
 * A path to the network namespace of this inode, as far as it is mounted, or a process is in it that /proc shows; undefined when
 * there is none. No namespace is opened for it, and only the first that fits is looked at further.
 */
export function findNamespacePath(inode: bigint): string | undefined {
  const id = `net:[${inode}]`
  for (const line of readTextFile("/proc/self/mountinfo").split("\n")) {
    // "536 27 0:4 net:[4026532281] /run/netns/NAME rw shared:2 - nsfs nsfs rw"; white space of a path is in octal
    const [, , , root, path = ""] = line.split(" ")
    if (root !== id) continue
    const unescaped = path.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
    if (isNamespace(unescaped, inode)) return unescaped // another file system may be mounted over it
  }
  const processes = readDirectory("/proc").filter((entry) => /^\d+$/.test(entry))
  return processes.map((entry) => `/proc/${entry}/ns/net`).find((path) => isNamespace(path, inode))
}

/** False also when the process has ended, or is not ours to look at. */
function isNamespace(path: string, inode: bigint): boolean {
  const found = unlessErrno(() => findStat(path), "ENOTDIR", "ESRCH", "EACCES", "EPERM", "ELOOP")
  return found?.inode === inode
}
