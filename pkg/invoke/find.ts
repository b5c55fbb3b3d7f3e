import { isRegularFile, stat } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"

/**
 * Finds the executable of a plugin: the first regular file of that name in the directories of `CNI_PATH` (separated by
 * ":"), links followed. A file that may not be executed is taken only when no other is found. Empty and relative
 * directories are skipped: they would mean whatever the working directory happens to be.
 *
 * Throws code 7 for a name that cannot be one, code 4 for an empty path, and code 999 when there is no such plugin.
 */
export function findPlugin(type: string, cniPath: string): string {
  if (type === "") throw new CniError(Code.InvalidNetworkConfig, "no plugin name provided")
  if (type.includes("/") || type.includes("\\") || type.includes("\0") || type === "." || type === "..") {
    throw new CniError(Code.InvalidNetworkConfig, `invalid plugin name: ${type}`, {
      details: "a plugin's type is the name of a file, without a directory",
    })
  }
  const directories: string[] = []
  for (const directory of cniPath.split(":")) if (directory.startsWith("/")) directories.push(directory)
  if (directories.length === 0) {
    const skipped = cniPath !== "" ? `; not absolute: ${JSON.stringify(cniPath)}` : ""
    throw new CniError(Code.InvalidEnvironment, "no paths provided", {
      details: `CNI_PATH holds no absolute directory to search for plugin "${type}"${skipped}`,
    })
  }
  const found = firstFile(directories, type, true) ?? firstFile(directories, type, false)
  if (found !== undefined) return found
  throw new PluginNotFound(`failed to find plugin ${JSON.stringify(type)} in path [${directories.join(" ")}]`)
}

/** No directory of `CNI_PATH` has the plugin. */
export class PluginNotFound extends CniError {
  constructor(message: string) {
    super(Code.Internal, message, { details: "install the plugin there, or add its directory to CNI_PATH" })
  }
}

function firstFile(directories: readonly string[], name: string, executable: boolean): string | undefined {
  for (const directory of directories) {
    const path = `${directory}${directory.endsWith("/") ? "" : "/"}${name}`
    try {
      const found = stat(path)
      if (isRegularFile(found) && (!executable || (found.mode & 0o111) !== 0)) return path
    } catch {} // not there, or not for us to see: the next directory may have it
  }
  return undefined
}
