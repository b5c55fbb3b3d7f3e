/**
 * Signs a release: `npm run release:sign -- KEY`, after `npm run dist`. KEY is the releaser's SSH key, or its public
 * half if an agent or a token has the private half. Refuses a checkout that is no release, files that differ from their
 * sums, and files of another commit. Writes `SHA256SUMS.sig` and the release's text, `RELEASE.md`, into dist.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { root, run } from "../engine.ts"
import { findObstacles, findSection } from "./check.ts"
import { sumsName } from "./packages.ts"
import { about } from "./place.ts"
import { findSource, provenanceName, sumsOf } from "./provenance.ts"

/** The purpose of the signatures. A signature by the same key for another purpose is not valid for a release. */
export const namespace = "cni-plugins-release"

/** Throws if the files of a directory do not match its sums, or were not built from this commit. */
export function checkFiles(directory: string, commit: string | undefined): void {
  const list = join(directory, sumsName)
  if (!existsSync(list)) throw new Error(`Cannot sign: "${list}" is missing; npm run dist makes it`)
  const sums = readFileSync(list, "utf8")
  const names = [...sums.matchAll(/^[0-9a-f]{64} {2}(.+)$/gm)].map(([, name = ""]) => name)
  const missing = [...names, provenanceName].find((name) => !names.includes(name) || !existsSync(join(directory, name)))
  if (missing) throw new Error(`Cannot sign: "${missing}" is missing`)
  if (sumsOf(directory, names) !== sums) throw new Error(`Cannot sign: files of "${directory}" differ from ${sumsName}`)
  const { predicate } = JSON.parse(readFileSync(join(directory, provenanceName), "utf8"))
  const [source] = predicate.buildDefinition.resolvedDependencies
  if (!commit || source.digest?.gitCommit !== commit)
    throw new Error(`Cannot sign: the files were not made from commit ${commit}; npm run dist makes them again`)
}

/** Signs the sums in a directory, like `ssh-keygen -Y sign -f KEY -n cni-plugins-release SHA256SUMS`. */
export async function signSums(directory: string, key: string): Promise<void> {
  const sums = join(directory, sumsName)
  rmSync(`${sums}.sig`, { force: true })
  await run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace, sums])
}

if (import.meta.main) {
  const [key] = process.argv.slice(2)
  if (!key) throw new Error("Cannot sign: expected the path of a key")
  const obstacles = await findObstacles(root)
  if (obstacles.length > 0) throw new Error(`Cannot sign: ${obstacles.join("; ")}`)
  const directory = join(root, "dist")
  checkFiles(directory, (await findSource(root)).commit)
  await signSums(directory, key)
  const text = findSection(readFileSync(join(root, "CHANGELOG.md"), "utf8"), about.version)
  writeFileSync(join(directory, "RELEASE.md"), `${text}\n`)
  console.log(`Signed ${join(directory, sumsName)}; the text of the release is in ${join(directory, "RELEASE.md")}`)
}
