import { type Installation, install, packagedBinDirs, requireExecutable, requireVersion } from "../install/mod.ts"
import { dirname, executablePath, exists, join } from "../pkg/libc/mod.ts"
import { pluginNames } from "../suite/plugins.ts"

/** The directory and the options for an installation of plugins. */
export type InstallationManner = Pick<Installation, "adopt" | "dryRun" | "directory">

/** Returns an installation of all plugins that are beside this tool. Throws if they are missing. */
export function pluginInstallation(manner: InstallationManner): Installation {
  const from = pluginsBeside(dirname(executablePath()))
  const checks = { inspect: requireExecutable, introduce: requireVersion }
  return { ...manner, ...checks, from, source: (name) => join(from, name), names: pluginNames }
}

/**
 * Returns the directory with this suite's plugins: `bin` beside this tool after a build, the tool's directory in an
 * archive, or the directory of the tool's package.
 */
export function pluginsBeside(directory: string): string {
  const places = [join(directory, "bin"), directory, ...packagedBinDirs(directory)]
  const missing = places.map((place) => pluginNames.filter((name) => !exists(join(place, name))))
  const found = places.find((_, at) => missing[at]?.length === 0)
  if (found !== undefined) return found
  const [fewest = []] = missing.sort((a, b) => a.length - b.length)
  throw new Error(`Cannot find the plugins to install in ${places.join(" or ")}: missing ${fewest.join(", ")}`)
}

/** Reports whether `cni install` of this tool would succeed in a directory. Changes nothing. */
export function canInstall(directory: string, adopt: boolean): boolean {
  try {
    const installation = pluginInstallation({ directory, adopt, dryRun: true })
    if (exists(directory)) install(installation)
    return true
  } catch {
    return false
  }
}
