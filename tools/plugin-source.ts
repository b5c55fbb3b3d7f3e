import { type Installation, install, packagedBinDirs, requireExecutable, requireVersion } from "../install/mod.ts"
import { dirname, executablePath, exists, join } from "../pkg/libc/mod.ts"
import { pluginNames } from "../suite/plugins.ts"

/** Where plugins are installed, and how. */
export type InstallationManner = Pick<Installation, "adopt" | "dryRun" | "directory">

/** The installation of all plugins from those beside this tool. Throws where they cannot be found. */
export function pluginInstallation(manner: InstallationManner): Installation {
  const from = pluginsBeside(dirname(executablePath()))
  const checks = { inspect: requireExecutable, introduce: requireVersion }
  return { ...manner, ...checks, from, source: (name) => join(from, name), names: pluginNames }
}

/** The directory of the plugins: `bin` beside this tool, as built, that of the tool, as unpacked, or that of the tool's package. */
export function pluginsBeside(directory: string): string {
  const places = [join(directory, "bin"), directory, ...packagedBinDirs(directory)]
  const missing = places.map((place) => pluginNames.filter((name) => !exists(join(place, name))))
  const found = places.find((_, at) => missing[at]?.length === 0)
  if (found !== undefined) return found
  const [fewest = []] = missing.sort((a, b) => a.length - b.length)
  throw new Error(
    `Cannot find the plugins to install: expected all of them in ${places.join(" or ")}, without ${fewest.join(", ")}`,
  )
}

/** Whether `cni install` of this tool would succeed in a directory, which it makes sure of without changing anything. */
export function canInstall(directory: string, adopt: boolean): boolean {
  try {
    const installation = pluginInstallation({ directory, adopt, dryRun: true })
    if (exists(directory)) install(installation)
    return true
  } catch {
    return false
  }
}
