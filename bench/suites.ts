import { existsSync } from "node:fs"
import { join } from "node:path"

/** The two suites that are compared: the directories of their executables. */
export const suites = {
  ours: join(import.meta.dir, "../dist/bin"),
  Go: "/usr/lib/cni",
} as const

/** The absolute path of a suite's plugin. Throws when it is not there. */
export function pluginPath(suite: keyof typeof suites, plugin: string): string {
  const path = join(suites[suite], plugin)
  if (existsSync(path)) return path
  const help = suite === "ours" ? "run `npm run build`" : "install Debian's containernetworking-plugins"
  throw new Error(`Cannot measure "${path}": it does not exist; ${help}`)
}
