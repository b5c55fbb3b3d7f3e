import { findStat, readDirectory, readlink, readTextFile, unlessErrno } from "../libc/mod.ts"

/** The network namespaces that are mounted, as the kernel numbers them, "net:[4026532281]", each with its path; only one where `wanted` names it. */
function mounted(wanted = "net:["): { id: string; path: string }[] {
  const lines = readTextFile("/proc/self/mountinfo").split("\n")
  return lines.flatMap((line) => {
    // "536 27 0:4 net:[4026532281] /run/netns/NAME rw shared:2 - nsfs nsfs rw"; white space of a path is in octal
    const [, , , id = "", path = ""] = line.split(" ")
    if (!id.startsWith(wanted)) return []
    const unescaped = path.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
    return [{ id, path: unescaped }]
  })
}

/** The paths to the namespaces of all processes that /proc shows. */
function ofProcesses(): string[] {
  const processes = readDirectory("/proc").filter((entry) => /^\d+$/.test(entry))
  return processes.map((entry) => `/proc/${entry}/ns/net`)
}

/**
 * A path for each network namespace that is mounted, or that a process is in, as /proc shows them. What keeps a
 * namespace by a descriptor alone, or in another mount and PID namespace, is not seen.
 */
export function listNamespaces(): string[] {
  const paths = new Map(mounted().map(({ id, path }) => [id, path]))
  for (const path of ofProcesses()) {
    const id = findTarget(path)
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

/**
 * Returns a path to the network namespace with this inode: a mount of it, or /proc/PID/ns/net of a visible process in
 * it. `undefined` when there is no such path. Opens no namespace.
 */
export function findNamespacePath(inode: bigint): string | undefined {
  const named = mounted(`net:[${inode}]`)
  const found = named.find(({ path }) => isNamespace(path, inode)) // another file system may be mounted over it
  return found?.path ?? ofProcesses().find((path) => isNamespace(path, inode))
}

/** False also when the process has ended, or is not ours to look at. */
function isNamespace(path: string, inode: bigint): boolean {
  const found = unlessErrno(() => findStat(path), "ENOTDIR", "ESRCH", "EACCES", "EPERM", "ELOOP")
  return found?.inode === inode
}
