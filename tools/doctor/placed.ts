import { type Difference, findVersion, type Verified, verify } from "../../install/mod.ts"
import { isErrno, join } from "../../pkg/libc/mod.ts"
import { isCniError } from "../../pkg/types/mod.ts"
import type { Check, Finding } from "./finding.ts"
import { sh } from "./remedy.ts"

/** The files of `cni install`: were they replaced by others since, or was an installation interrupted. */
export const checkPlaced: Check = ({ node }) => {
  return node.places.binDirs.flatMap((directory): Finding[] => {
    const verified = look(directory)
    if (!verified) return []
    const { differences, interrupted } = verified
    const replaced = differences.filter(({ is }) => is === "replaced").map((one) => replacedBy(directory, one))
    return interrupted === undefined ? replaced : [...replaced, interruption(directory)]
  })
}

/** Undefined where nothing was installed, where it cannot be read, or where an installer is at work. */
function look(directory: string): Verified | undefined {
  try {
    return verify(directory, { isQuick: true })
  } catch (error) {
    if (isErrno(error) || isCniError(error)) return undefined
    throw error
  }
}

function replacedBy(directory: string, { name }: Difference): Finding {
  const version = findVersion(join(directory, name))
  const by = version === undefined ? "" : `: it says "${version}"`
  return {
    rule: "plugin-replaced",
    severity: "warning",
    cause: directory,
    affected: [{ name: `"${name}"` }],
    what: `plugin "${name}" in ${directory} was replaced since it was installed${by}`,
    ofMany: (count) => `${count} plugins in ${directory} were replaced since they were installed`,
    why: "another installer wrote over it: containers are attached by a plugin of another suite or version",
    remedy: sh`cni install --bin-dir ${directory} --adopt`,
    note: "the other installer may replace it again: see what runs it",
  }
}

function interruption(directory: string): Finding {
  return {
    rule: "install-interrupted",
    severity: "warning",
    cause: directory,
    what: `an installation into ${directory} was interrupted`,
    why: "plugins of two versions work together until it is finished",
    remedy: sh`cni install --bin-dir ${directory}`,
    note: "cni install --rollback takes it back",
  }
}
