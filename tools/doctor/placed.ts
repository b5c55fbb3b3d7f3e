import { type Difference, findVersion, type Verified, verify } from "../../install/mod.ts"
import { isErrno, join } from "../../pkg/libc/mod.ts"
import { isCniError } from "../../pkg/types/mod.ts"
import { type Check, type DoctorInput, type Finding, installCommand } from "./finding.ts"

/** Finds files of `cni install` that another program replaced, and interrupted installations. */
export const checkPlaced: Check = (input) => {
  return input.node.places.binDirs.flatMap((directory): Finding[] => {
    const verified = look(directory)
    if (!verified) return []
    const { differences, interrupted } = verified
    const replaced = differences.filter(({ is }) => is === "replaced").map((one) => replacedBy(input, directory, one))
    return interrupted === undefined ? replaced : [...replaced, interruption(input, directory)]
  })
}

/** Verifies an installation. Undefined if none exists, the manifest is unreadable, or an installer is running. */
function look(directory: string): Verified | undefined {
  try {
    return verify(directory, { isQuick: true })
  } catch (error) {
    if (isErrno(error) || isCniError(error)) return undefined
    throw error
  }
}

function replacedBy(input: DoctorInput, directory: string, { name }: Difference): Finding {
  const version = findVersion(join(directory, name))
  const by = version === undefined ? "" : `: it now reports "${version}"`
  return {
    rule: "plugin-replaced",
    severity: "warning",
    cause: directory,
    affected: [{ name: `"${name}"` }],
    what: `plugin "${name}" in ${directory} was replaced since it was installed${by}`,
    ofMany: (count) => `${count} plugins in ${directory} were replaced since they were installed`,
    why: "another installer overwrote it: a plugin of another suite or version now attaches containers",
    remedy: installCommand(input, directory, true),
    note: "the other installer may replace it again: find the program that runs it",
  }
}

function interruption(input: DoctorInput, directory: string): Finding {
  return {
    rule: "install-interrupted",
    severity: "warning",
    cause: directory,
    what: `an installation into ${directory} was interrupted`,
    why: "plugins of two versions are mixed until the installation is finished",
    remedy: installCommand(input, directory),
    note: "cni install --rollback undoes it",
  }
}
