/**
 * Checks whether the checkout is a release, before `npm run dist` creates the files of one.
 *
 *   npm run release:check                     prints the reasons why it is not one, or the release's text
 *   bun scripts/release/check.ts --tested ID  records that all tests of this commit passed; .ci/run runs it at its end
 *
 * Tests pass for the content of a commit, which git identifies by its tree's hash. The record is a ref of git,
 * `refs/tested/TREE`, which points to the commit. `git fetch REMOTE 'refs/tested/*:refs/tested/*'` copies it to other
 * checkouts.
 */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { root, run } from "../engine.ts"
import { findSource } from "./provenance.ts"

async function git(directory: string, ...args: string[]): Promise<string> {
  return Buffer.from(await run(["git", "-C", directory, ...args]))
    .toString()
    .trim()
}

const findWithGit = (directory: string, ...args: string[]) => git(directory, ...args).catch(() => undefined)

/** Returns the section of a version in a changelog, without its heading, as the text of the release. */
export function findSection(changelog: string, version: string): string | undefined {
  const sections = changelog.split(/^## /m).slice(1)
  const found = sections.find((section) => section.startsWith(`[${version}]`))
  return found?.slice(found.indexOf("\n")).trim()
}

/** Returns the reasons why a checkout is not a release; empty if it is one. */
export async function findObstacles(directory: string): Promise<string[]> {
  const { version } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"))
  const changelog = readFileSync(join(directory, "CHANGELOG.md"), "utf8")
  const { commit, isClean } = await findSource(directory)
  if (commit === undefined) return ["the directory is not a checkout of git"]

  const obstacles: string[] = []
  if (!isClean) obstacles.push("files differ from the commit: see git status")
  const headline = changelog.split("\n").find((line) => line.startsWith(`## [${version}]`))
  if (!findSection(changelog, version)) obstacles.push(`CHANGELOG.md says nothing about version ${version}`)
  else if (!/^## \[[^\]]+\] - \d{4}-\d\d-\d\d$/.test(headline ?? ""))
    obstacles.push(`the headline of ${version} in CHANGELOG.md has no date: expected "## [${version}] - YYYY-MM-DD"`)
  if (!existsSync(join(directory, "integration/upgrade", `${version}.json`)))
    obstacles.push(`what ${version} leaves on a node is not recorded: bun integration/upgrade/record.ts`)
  if (findSection(changelog, "Unreleased")) obstacles.push("CHANGELOG.md has changes under Unreleased")
  const tag = `v${version}`
  const tagged = await findWithGit(directory, "rev-parse", "--verify", "--quiet", `refs/tags/${tag}^{commit}`)
  if (tagged === undefined) obstacles.push(`there is no tag ${tag}: git tag --sign ${tag}`)
  else if (tagged !== commit) obstacles.push(`the tag ${tag} is on another commit, ${tagged}`)
  else if ((await git(directory, "cat-file", "-t", `refs/tags/${tag}`)) !== "tag")
    obstacles.push(`the tag ${tag} has no author and no date: make it with git tag --sign, or --annotate`)
  const tree = await git(directory, "rev-parse", "HEAD^{tree}")
  if ((await findWithGit(directory, "rev-parse", "--verify", "--quiet", `refs/tested/${tree}`)) === undefined)
    obstacles.push("no record says that all tests of these files have passed: run .ci/run")
  return obstacles
}

/** Records that a commit's tests passed. Throws if the checkout differs, because then other files were tested. */
export async function recordTested(directory: string, tested: string): Promise<void> {
  const { commit, isClean } = await findSource(directory)
  if (commit !== tested) throw new Error(`Cannot record the tests of ${tested}: the checkout is at ${commit}`)
  if (!isClean) throw new Error(`Cannot record the tests of ${tested}: files differ from the commit`)
  await git(directory, "update-ref", `refs/tested/${await git(directory, "rev-parse", "HEAD^{tree}")}`, commit)
}

if (import.meta.main) {
  const [option, id] = process.argv.slice(2)
  if (option === "--tested" && id) await recordTested(root, id)
  else {
    const obstacles = await findObstacles(root)
    for (const obstacle of obstacles) console.error(`Cannot release: ${obstacle}`)
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    if (obstacles.length > 0) process.exitCode = 1
    else console.log(findSection(readFileSync(join(root, "CHANGELOG.md"), "utf8"), version))
  }
}
