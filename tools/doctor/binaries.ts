import { introductionOf } from "../../install/mod.ts"
import { pluginPath, validatePluginName } from "../../pkg/invoke/mod.ts"
import { findStat, isErrno, isRegularFile, type Stat, unlessErrno } from "../../pkg/libc/mod.ts"
import { foreign } from "../node/mod.ts"

/** A plugin's file, and what it prints when it runs without a command. */
export interface PluginBinary {
  readonly type: string
  readonly file: string
  readonly mode: number
  readonly owner: number
  /** The printed version: "cni-plugins v0.1.0", "CNI bridge plugin v1.1.1". Undefined if the file cannot run. */
  readonly version?: string
  /** Whether the file answers like a CNI plugin of any suite. */
  readonly isPlugin?: boolean
  /** Why the kernel cannot start the file: ENOEXEC for a program of another architecture, or for a damaged file. */
  readonly unstartable?: string
}

/** Finds a plugin in the directories, with its version. Undefined if it is missing or `type` is not a valid name. */
export function inspectPlugin(type: string, directories: readonly string[]): PluginBinary | undefined {
  for (const directory of isPluginName(type) ? directories : []) {
    const file = pluginPath(directory, type)
    const found = unlessErrno(() => findStat(file), "ENOTDIR")
    if (found && isRegularFile(found))
      return { type, file, mode: found.mode & 0o7777, owner: found.user, ...versionOf(file, found) }
  }
  return undefined
}

export function isPluginName(type: string): boolean {
  try {
    validatePluginName(type)
    return true
  } catch {
    return false
  }
}

function versionOf(file: string, { mode }: Stat): Pick<PluginBinary, "version" | "isPlugin" | "unstartable"> {
  if ((mode & 0o111) === 0) return {}
  try {
    const { version, isPlugin } = introductionOf(file)
    return version === undefined ? { isPlugin } : { isPlugin, version: foreign(version) }
  } catch (error) {
    return { unstartable: isErrno(error) ? error.errno : String(error) }
  }
}
