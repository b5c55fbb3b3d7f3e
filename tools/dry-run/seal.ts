import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import {
  dirname,
  exists,
  isDirectory,
  join,
  makeDirectories,
  readEntries,
  readTextFile,
  realPath,
  stat,
  writeFile,
} from "../../pkg/libc/mod.ts"
import { runByName } from "./programs.ts"

export interface SealPlan {
  /** An empty directory for a temporary mount. */
  readonly scratch: string
  /** Directories in which plugins write files. Their writes go to a layer in memory. */
  readonly written: readonly string[]
  /** Paths below /run that stay visible. Other paths are hidden, because their sockets lead to daemons of the host. */
  readonly seen: readonly string[]
}

/** File systems of the kernel, which are private to the namespaces or have no regular files. */
const kernels = /^\/(proc|sys|dev)(\/|$)/

/**
 * Makes all files read-only in this mount namespace, with an empty /run. Writes to some directories go to layers in
 * memory. Returns the paths of these layers. Throws if the kernel refuses a mount.
 */
export function sealFiles({ scratch, written, seen }: SealPlan): { layers: Map<string, string>; cacheDir: string } {
  mount("-t", "tmpfs", "-o", "mode=755", "cni-dry-run", scratch)
  mount("-t", "sysfs", "sysfs", "/sys")
  const run = join(scratch, "run")
  for (const name of ["cni", "netns"]) makeDirectories(join(run, name))
  for (const path of seen.filter(exists).map(realPath)) {
    if (!path.startsWith("/run/")) continue
    const place = join(scratch, path)
    makeDirectories(isDirectory(stat(path)) ? place : dirname(place))
    if (!exists(place)) writeFile(place, "")
    mount("--rbind", path, place)
  }
  mount("--rbind", run, "/run")
  const layers = new Map<string, string>()
  for (const directory of new Set(written.map(existing))) {
    const layer = join(scratch, `layer-${layers.size}`)
    for (const part of ["upper", "work"]) makeDirectories(join(layer, part))
    const option = (name: string, path: string) => `${name}=${path.replace(/[\\,:]/g, "\\$&")}`
    const options = [
      option("lowerdir", directory),
      option("upperdir", join(layer, "upper")),
      option("workdir", join(layer, "work")),
    ]
    mount("-t", "overlay", "-o", options.join(","), "cni-dry-run", directory)
    layers.set(directory, join(layer, "upper"))
  }
  const own = [scratch, "/run", ...layers.keys()]
  for (const point of mountPoints().filter(
    (each) => !kernels.test(each) && !own.some((path) => isWithin(each, path)),
  )) {
    mount("-o", "remount,bind,ro", point)
  }
  const cacheDir = join(scratch, "cache")
  makeDirectories(cacheDir)
  return { layers, cacheDir }
}

/** Returns the files that were written to the layers, by their paths on the host. */
export function filesWritten(layers: ReadonlyMap<string, string>): string[] {
  const found = [...layers].flatMap(([directory, upper]) =>
    filesBelow(upper).map((path) => join(directory, path.slice(upper.length))),
  )
  return found.sort()
}

function filesBelow(directory: string): string[] {
  return readEntries(directory).flatMap(({ name, isDirectory, isFile }) => {
    const path = join(directory, name)
    return isDirectory ? filesBelow(path) : isFile ? [path] : []
  })
}

/** Returns the path itself, or its nearest existing parent directory. */
function existing(path: string): string {
  return exists(path) ? realPath(path) : existing(dirname(path))
}

function isWithin(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`)
}

function mountPoints(): string[] {
  const lines = readTextFile("/proc/self/mountinfo").trimEnd().split("\n")
  const points = lines.map((line) =>
    (line.split(" ")[4] ?? "/").replace(/\\(\d{3})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 8))),
  )
  return [...new Set(points)]
}

function mount(...args: string[]): void {
  const ended = runByName("mount", args)
  if (ended?.exitCode === 0) return
  const reason = ended === undefined ? "the program does not exist" : decodeUtf8(ended.stderr).trim()
  throw new Error(`Cannot create a private copy of the host: mount ${args.join(" ")}: ${reason}`)
}
