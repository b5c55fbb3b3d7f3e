import { readlink } from "./files.ts"

/** POSIX paths as texts, as `node:path` has them. */

/** Joins parts to one path, and takes "." and ".." out of it, like `join` of node:path: "a", "../b" is "b". */
export function join(...parts: readonly string[]): string {
  return normalize(parts.filter((part) => part !== "").join("/"))
}

/** The directory that a path's last name lies in, like `dirname`: "/a" of "/a/b", "." of "b". */
export function dirname(path: string): string {
  const end = endOf(path)
  const slash = path.lastIndexOf("/", end - 1)
  if (slash === -1) return path.startsWith("/") ? "/" : "."
  if (slash === 0) return "/"
  if (slash === 1 && path.startsWith("//")) return "//" // POSIX leaves the meaning of two slashes open, and node:path keeps them
  return path.slice(0, slash)
}

/** The last name of a path, like `basename`: "b" of "/a/b/". */
export function basename(path: string): string {
  const end = endOf(path)
  return path.slice(path.lastIndexOf("/", end - 1) + 1, end)
}

/** The absolute path that a path means in the working directory, without "." and "..". Throws `SyscallError`. */
export function resolve(path: string): string {
  return path.startsWith("/") ? resolveIn("/", path) : resolveIn(readlink("/proc/self/cwd"), path)
}

/** The absolute path that a path means in an absolute directory. */
export function resolveIn(directory: string, path: string): string {
  const whole = normalize(path.startsWith("/") ? path : `${directory}/${path}`)
  return whole.length > 1 && whole.endsWith("/") ? whole.slice(0, -1) : whole
}

/** Where the slashes at the end of a path begin. */
function endOf(path: string): number {
  let end = path.length
  while (end > 0 && path[end - 1] === "/") end--
  return end
}

function normalize(path: string): string {
  const isAbsolute = path.startsWith("/")
  const names: string[] = []
  for (const name of path.split("/")) {
    if (name === "" || name === ".") continue
    if (name !== "..") names.push(name)
    else if (names.length > 0 && names.at(-1) !== "..") names.pop()
    else if (!isAbsolute) names.push(name)
  }
  const inside = names.join("/")
  if (inside === "") return isAbsolute ? "/" : path.endsWith("/") ? "./" : "."
  return `${isAbsolute ? "/" : ""}${inside}${path.endsWith("/") ? "/" : ""}`
}
