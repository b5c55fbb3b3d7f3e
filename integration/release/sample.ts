import { cp, mkdir, readdir, rename } from "node:fs/promises"
import { basename, join } from "node:path"
import { version } from "../../package.json"
import { makeArchive } from "../../scripts/dist.ts"
import { root, targets } from "../../scripts/engine.ts"
import { agentFiles } from "../../scripts/release/agent.ts"
import { makeDeb } from "../../scripts/release/deb.ts"
import { makeImage } from "../../scripts/release/image.ts"
import { completeRelease, makePackages, sumsName } from "../../scripts/release/packages.ts"
import { findSource, sumsOf } from "../../scripts/release/provenance.ts"
import { makeRpm } from "../../scripts/release/rpm.ts"
import { type StagedFile, stageFiles } from "../../scripts/release/stage.ts"
import { makeSysext } from "../../scripts/release/sysext.ts"
import { TemporaryDirectory } from "../lab/mod.ts"

/** The modification time of the files, in seconds since 1970. */
export const age = 1_700_000_000

export const laterVersion = "99.0.0"

/** The plugins in the packages, in alphabetical order. There are only a few, so that packages are built quickly. */
export const samplePlugins = ["bridge", "dhcp", "host-local"]

/** The name of an image for arm64 only, beside the files of an upgrade. */
export const arm64Image = "arm64.tar"

const sampleOf = (files: readonly StagedFile[]) =>
  files.filter(({ kind, name }) => kind !== "plugin" || samplePlugins.includes(name))

/**
 * Creates a release in a directory: the archive and the image with all plugins, the image of the agent, and packages
 * with the sample of plugins. The arm64 files contain this machine's executables. Returns the names of the files.
 */
async function makeRelease(directory: string, files: readonly StagedFile[]): Promise<string[]> {
  const source = await findSource(root)
  const archive = await makeArchive(targets.amd64, files, directory, age)
  const sample = new Map(Object.values(targets).map((target) => [target, sampleOf(files)]))
  const packages = await makePackages(sample, directory, age)
  const agents = new Map([[targets.amd64, await agentFiles(targets.amd64)]])
  await makeImage(new Map(sample).set(targets.amd64, [...files]), { directory, age }, agents) // the tool installs only a whole suite
  return completeRelease([archive], packages, directory, { age, source })
}

/**
 * Adds the amd64 files of a later version to the directory of a release. To differ, each executable has its version
 * appended after the loaded part. Also adds an arm64 image and the checksums of all files.
 */
async function makeLater(directory: string, files: readonly StagedFile[]): Promise<void> {
  await using scratch = await TemporaryDirectory.create("cni-later", directory)
  const later = files.map((file) => markedWith(laterVersion, file))
  const archive = await makeArchive(targets.amd64, later, scratch.path, age)
  await rename(archive, join(directory, basename(archive).replace(version, laterVersion)))
  for (const make of [makeDeb, makeRpm, makeSysext])
    await make(targets.amd64, sampleOf(later), { directory, age, version: laterVersion })
  await makeImage(new Map([[targets.arm64, sampleOf(files)]]), { directory: scratch.path, age })
  await rename(scratch.join(`cni-plugins-image-${version}.tar`), join(directory, arm64Image))
  const names = (await readdir(directory)).filter((name) => /^cni-plugins[-_]\w/.test(name))
  await Bun.write(join(directory, sumsName), sumsOf(directory, names.sort()))
}

/** Returns a file as if from another build: the mark is appended to an executable, after the loaded part. */
export function markedWith(mark: string, file: StagedFile): StagedFile {
  return file.kind === "plugin" || file.kind === "tool"
    ? { ...file, bytes: Buffer.concat([file.bytes, Buffer.from(mark)]) }
    : file
}

/** Creates two directories: `release`, and `upgrade` with the same release and files of a later version. */
export async function makeBoth(directory: string): Promise<void> {
  const files = await stageFiles(targets.amd64)
  await mkdir(join(directory, "release"), { recursive: true })
  await makeRelease(join(directory, "release"), files)
  await cp(join(directory, "release"), join(directory, "upgrade"), { recursive: true })
  await makeLater(join(directory, "upgrade"), files)
}

/** A directory created by `makeBoth`, which tests must not change. */
export interface Made extends AsyncDisposable {
  readonly path: string
}

/** Returns `CNI_TEST_RELEASE`, created by `npm run test:release` for all tests, or else a new directory. */
export async function madeFiles(which: "release" | "upgrade"): Promise<Made> {
  const made = process.env.CNI_TEST_RELEASE
  if (made) return { path: join(made, which), [Symbol.asyncDispose]: async () => {} }
  const own = await TemporaryDirectory.create("cni-release")
  await makeBoth(own.path)
  return { path: own.join(which), [Symbol.asyncDispose]: () => own[Symbol.asyncDispose]() }
}

if (import.meta.main) {
  const [, , directory = "", what] = process.argv
  if (what === "release") await makeRelease(directory, await stageFiles(targets.amd64))
  else await makeBoth(directory)
}
