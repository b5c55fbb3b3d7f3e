import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { copyExecutable } from "../cmd/install/copy.ts"

/** Debian's package "containernetworking-plugins". */
const debian = "/usr/lib/cni"

/**
 * The two suites that are compared: the directories of their executables. Both have been written by us, each file in one
 * piece: how a file was written decides how it lies in the page cache, and that is a sixth of the time of a start.
 */
export const suites = {
  ours: join(import.meta.dir, "../dist/bin"),
  Go: join(import.meta.dir, "../dist/bench/go"),
} as const

/** Copies the Go suite. Throws when it is not installed. */
export function copyGoSuite(): void {
  if (!existsSync(debian)) {
    throw new Error(`Cannot measure "${debian}": it does not exist; install Debian's containernetworking-plugins`)
  }
  rmSync(suites.Go, { recursive: true, force: true })
  mkdirSync(suites.Go, { recursive: true })
  for (const name of readdirSync(debian)) copyExecutable(join(debian, name), join(suites.Go, name))
}

/** The absolute path of a suite's plugin. Throws when it is not there. */
export function pluginPath(suite: keyof typeof suites, plugin: string): string {
  const path = join(suites[suite], plugin)
  if (existsSync(path)) return path
  throw new Error(`Cannot measure "${path}": it does not exist; run \`npm run bench\``)
}
