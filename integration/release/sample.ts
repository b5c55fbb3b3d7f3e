import { readdir, rename } from "node:fs/promises"
import { basename, join } from "node:path"
import { version } from "../../package.json"
import { makeArchive } from "../../scripts/dist.ts"
import { root, targets } from "../../scripts/engine.ts"
import { makeDeb } from "../../scripts/release/deb.ts"
import { makeImage } from "../../scripts/release/image.ts"
import { completeRelease, makePackages, sumsName } from "../../scripts/release/packages.ts"
import { findSource, sumsOf } from "../../scripts/release/provenance.ts"
import { makeRpm } from "../../scripts/release/rpm.ts"
import { type StagedFile, stageFiles } from "../../scripts/release/stage.ts"
import { makeSysext } from "../../scripts/release/sysext.ts"
import { TemporaryDirectory } from "../lab/mod.ts"

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

/**
 * Makes the files that pages install, with `SHA256SUMS`, in a directory: the archive and the image have all plugins, packages those of the
 * sample. `later` is the version of packages, whose executables then end with it, behind what is loaded.
 */
export async function makeForPages(directory: string, later?: string): Promise<void> {
  const built = await stageFiles(targets.amd64)
  const files = later === undefined ? built : built.map((file) => markedWith(later, file))
  const making = { directory, age, ...(later && { version: later }) }
  await using scratch = await TemporaryDirectory.create("cni-archive", directory)
  const archive = await makeArchive(targets.amd64, files, scratch.path, age)
  await rename(archive, join(directory, basename(archive).replace(version, later ?? version)))
  for (const make of [makeDeb, makeRpm, makeSysext]) await make(targets.amd64, sampleOf(files), making)
  if (!later) await makeImage(new Map([[targets.amd64, files]]), directory, age)
  const names = (await readdir(directory)).filter((name) => name.startsWith("cni-plugins"))
  await Bun.write(join(directory, sumsName), sumsOf(directory, names))
}

function markedWith(mark: string, file: StagedFile): StagedFile {
  return file.kind === "plugin" || file.kind === "tool"
    ? { ...file, bytes: Buffer.concat([file.bytes, Buffer.from(mark)]) }
    : file
}

if (import.meta.main) await makeSample(process.argv[2] ?? "")
