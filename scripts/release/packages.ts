/** Creates the packages of a release, and the files with their descriptions and sums. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { root } from "../engine.ts"
import { makeDeb } from "./deb.ts"
import { type AgentsOf, type FilesOf, makeImage } from "./image.ts"
import { findSource, provenanceName, provenanceOf, type Source, sumsOf } from "./provenance.ts"
import { makeRpm } from "./rpm.ts"
import { spdxOf } from "./spdx.ts"
import { makeSysext } from "./sysext.ts"

/** Creates each kind of package for each machine, and the image with the agents, in a directory. Returns the paths. */
export async function makePackages(
  machines: FilesOf,
  directory: string,
  age: number,
  agents: AgentsOf = new Map(),
): Promise<string[]> {
  mkdirSync(directory, { recursive: true })
  const scratch = mkdtempSync(join(directory, ".packages-"))
  try {
    const ofMachines = [...machines].map(async ([target, files]) => {
      for (const make of [makeDeb, makeRpm, makeSysext]) await make(target, files, { directory: scratch, age })
    })
    await Promise.all([...ofMachines, makeImage(machines, { directory: scratch, age }, agents)])
    const made = readdirSync(scratch).sort()
    for (const name of made) renameSync(join(scratch, name), join(directory, name))
    return made.map((name) => join(directory, name))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/**
 * Writes `.spdx.json` beside the `.cdx.json` of each archive, the statement of provenance about all files of the
 * release, and `SHA256SUMS`. Returns the names of all files. `source` is the state of the sources before the build.
 */
export async function completeRelease(
  archives: readonly string[],
  packages: readonly string[],
  directory: string,
  { age, source }: { age: number; source: Source },
): Promise<string[]> {
  const bills = archives.flatMap((archive) => {
    const name = basename(archive)
    const [cyclonedx, spdx] = ["cdx.json", "spdx.json"].map((kind) => name.replace(/tgz$/, kind)) as [string, string]
    writeFileSync(join(directory, spdx), spdxOf(readFileSync(join(directory, cyclonedx), "utf8"), name))
    return [cyclonedx, spdx]
  })
  const made = [...[...archives, ...packages].map((path) => basename(path)), ...bills]
  const buildSource = duringBuild(source, await findSource(root))
  writeFileSync(
    join(directory, provenanceName),
    await provenanceOf(directory, made, { root, source: buildSource, age }),
  )
  writeFileSync(join(directory, sumsName), sumsOf(directory, [...made, provenanceName]))
  return [...made, provenanceName, sumsName]
}

/** Returns the source of a build. It is not clean if files or the commit changed during the build. */
function duringBuild(before: Source, after: Source): Source {
  const isClean = before.isClean && after.isClean && before.commit === after.commit
  return { commit: before.commit, isClean }
}

/** The name of the file with the sums of all other files of a release, which the releaser signs. */
export const sumsName = "SHA256SUMS"
