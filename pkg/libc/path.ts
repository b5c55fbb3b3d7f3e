import { readlink } from "./files.ts"

/** POSIX paths as strings, like `node:path`. */

/** Joins parts to one path and resolves "." and "..", like `join` of node:path: "b" for "a" and "../b". */
export function join(...parts: readonly string[]): string {
  return normalize(parts.filter((part) => part !== "").join("/"))
}

/** Returns the directory of a path, like `dirname`: "/a" for "/a/b", "." for "b". */
export function dirname(path: string): string {
  const end = endOf(path)
  const slash = path.lastIndexOf("/", end - 1)
  if (slash === -1) return path.startsWith("/") ? "/" : "."
  if (slash === 0) return "/"
  // POSIX leaves the meaning of two leading slashes open; node:path keeps them
  if (slash === 1 && path.startsWith("//")) return "//"
  return path.slice(0, slash)
}

/** Returns the last component of a path, like `basename`: "b" for "/a/b/". */
export function basename(path: string): string {
  const end = endOf(path)
  return path.slice(path.lastIndexOf("/", end - 1) + 1, end)
}

/** Returns the absolute path of one relative to the working directory, without "." and "..". Throws `SyscallError`. */
export function resolve(path: string): string {
  return path.startsWith("/") ? resolveIn("/", path) : resolveIn(readlink("/proc/self/cwd"), path)
}

/** Returns the absolute path of a path relative to an absolute directory. */
export function resolveIn(directory: string, path: string): string {
  const whole = normalize(path.startsWith("/") ? path : `${directory}/${path}`)
  return whole.length > 1 && whole.endsWith("/") ? whole.slice(0, -1) : whole
}

/** Returns the offset at which the trailing slashes of a path begin. */
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
