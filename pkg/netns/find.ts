import { findStat, readDirectory, readlink, readTextFile, unlessErrno } from "../libc/mod.ts"

/**
 * Returns the mounted network namespaces, each with its name in the kernel, "net:[4026532281]", and its path. With
 * `wanted`, returns only the namespaces with this name.
 */
function mounted(wanted = "net:["): { id: string; path: string }[] {
  const lines = readTextFile("/proc/self/mountinfo").split("\n")
  return lines.flatMap((line) => {
    // An example line: "536 27 0:4 net:[4026532281] /run/netns/NAME rw shared:2 - nsfs nsfs rw". White space in a path
    // is in octal.
    const [, , , id = "", path = ""] = line.split(" ")
    if (!id.startsWith(wanted)) return []
    const unescaped = path.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
    return [{ id, path: unescaped }]
  })
}

/** Returns the paths of the network namespaces of all processes in /proc. */
function ofProcesses(): string[] {
  const processes = readDirectory("/proc").filter((entry) => /^\d+$/.test(entry))
  return processes.map((entry) => `/proc/${entry}/ns/net`)
}

/**
 * Returns a path for each network namespace that is mounted or that a process in /proc uses. A namespace kept alive
 * only by a descriptor, or by another mount and PID namespace, is not found.
 */
export function listNamespaces(): string[] {
  const paths = new Map(mounted().map(({ id, path }) => [id, path]))
  for (const path of ofProcesses()) {
    const id = findTarget(path)
    if (id !== undefined && !paths.has(id)) paths.set(id, path)
  }
  return [...paths.values()]
}

/** Returns the target of a link in /proc; undefined if the process has ended or may not be inspected. */
function findTarget(path: string): string | undefined {
  try {
    return readlink(path)
  } catch {
    return undefined
  }
}

/**
 * Returns a path to the network namespace with this inode: a mount, or /proc/PID/ns/net of a visible process. Returns
 * `undefined` if none exists. It opens no namespace.
 */
export function findNamespacePath(inode: bigint): string | undefined {
  const named = mounted(`net:[${inode}]`)
  const found = named.find(({ path }) => isNamespace(path, inode)) // another file system may be mounted over the path
  return found?.path ?? ofProcesses().find((path) => isNamespace(path, inode))
}

/** Reports whether a path is the namespace with this inode. False if the process ended or is not visible. */
function isNamespace(path: string, inode: bigint): boolean {
  const found = unlessErrno(() => findStat(path), "ENOTDIR", "ESRCH", "EACCES", "EPERM", "ELOOP")
  return found?.inode === inode
}
