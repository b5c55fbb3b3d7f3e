import { makeArchive } from "../../scripts/dist.ts"
import { root, targets } from "../../scripts/engine.ts"
import { completeRelease, makePackages } from "../../scripts/release/packages.ts"
import { findSource } from "../../scripts/release/provenance.ts"
import { type StagedFile, stageFiles } from "../../scripts/release/stage.ts"

/** What the sample's files are as old as. */
export const age = 1_700_000_000

/** Few plugins, of which packages are made fast. */
export function sampleOf(files: readonly StagedFile[]): StagedFile[] {
  return files.filter(({ kind, name }) => kind !== "plugin" || samplePlugins.includes(name))
}

/** In alphabetical order. */
export const samplePlugins = ["bridge", "dhcp", "host-local"]

/** Makes a release of the sample in a directory, for arm64 of the same files: returns the names of its files. */
export async function makeSample(directory: string): Promise<string[]> {
  const source = await findSource(root)
  const files = sampleOf(await stageFiles(targets.amd64))
  const archive = await makeArchive(targets.amd64, files, directory, age)
  const machines = new Map(Object.values(targets).map((target) => [target, files]))
  return completeRelease([archive], await makePackages(machines, directory, age), directory, { age, source })
}

if (import.meta.main) await makeSample(process.argv[2] ?? "")
