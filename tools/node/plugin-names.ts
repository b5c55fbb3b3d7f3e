import { findPluginName, requirePlugin } from "../../pkg/invoke/mod.ts"
import { isCniError } from "../../pkg/types/mod.ts"
import { describedPlugins } from "../../suite/plugins.ts"

export type NameOf = (type: string) => string

/**
 * Returns a function that names plugins by the content of their files, because bridge may be installed as `cnv-bridge`.
 * If the directories have no file of this suite for a type, the type is the name. Reads each file once.
 */
export function namesOfFiles(binDirs: readonly string[]): NameOf {
  const names = new Map<string, string>(describedPlugins.map(({ name }) => [name, name]))
  return (type) => names.getOrInsertComputed(type, () => nameOfFile(type, binDirs) ?? type)
}

function nameOfFile(type: string, binDirs: readonly string[]): string | undefined {
  try {
    return findPluginName(requirePlugin(type, binDirs.join(":")))
  } catch (error) {
    if (isCniError(error)) return undefined // another finding reports the missing file
    throw error
  }
}
