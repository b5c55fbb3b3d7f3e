import { makeArchive } from "../../scripts/dist.ts"
import { root, targets } from "../../scripts/engine.ts"
import { completeRelease, makePackages } from "../../scripts/release/packages.ts"
import { findSource } from "../../scripts/release/provenance.ts"
import { type StagedFile, stageFiles } from "../../scripts/release/stage.ts"

/** What the sample's files are as old as. */
export const age = 1_700_000_000

/** A release of few plugins, which is made fast; those for arm64 are the same files. */
export async function findSample(): Promise<StagedFile[]> {
  const all = await stageFiles(targets.amd64)
  return all.filter(({ kind, name }) => kind !== "plugin" || samplePlugins.includes(name))
}

/** In alphabetical order. */
export const samplePlugins = ["bridge", "dhcp", "host-local"]

/** Makes the release of the sample in a directory: returns the names of its files. */
export async function makeSample(directory: string): Promise<string[]> {
  const source = await findSource(root)
  const files = await findSample()
  const archive = await makeArchive(targets.amd64, files, directory, age)
  const machines = new Map(Object.values(targets).map((target) => [target, files]))
  return completeRelease([archive], await makePackages(machines, directory, age), directory, { age, source })
}

if (import.meta.main) await makeSample(process.argv[2] ?? "")
