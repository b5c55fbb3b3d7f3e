import { linkSync, renameSync, rmSync } from "node:fs"

/**
 * Makes `name` a hard link of `file`, whatever was there before, in one step: at every moment the name holds either the
 * old file or the new one, and a process that runs the old one goes on. Like `ln --force`, without its gap.
 */
export function replaceLink(file: string, name: string): void {
  const temporary = `${name}.${process.pid}.tmp`
  rmSync(temporary, { force: true })
  linkSync(file, temporary)
  try {
    renameSync(temporary, name)
  } finally {
    rmSync(temporary, { force: true }) // rename(2) of two links of one file does nothing and leaves both
  }
}
