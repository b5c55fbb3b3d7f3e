import { expect, test } from "bun:test"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { mustRun, TemporaryDirectory } from "../../integration/lab/mod.ts"
import { findObstacles, findSection, recordTested } from "./check.ts"

/** A temporary git checkout with a commit and with its own settings. */
class Checkout implements AsyncDisposable {
  readonly directory: TemporaryDirectory

  private constructor(directory: TemporaryDirectory) {
    this.directory = directory
  }

  static async create(changelog: string): Promise<Checkout> {
    const checkout = new Checkout(await TemporaryDirectory.create("cni-checkout"))
    checkout.write("package.json", JSON.stringify({ version: "1.2.3" }))
    checkout.write("CHANGELOG.md", changelog)
    mkdirSync(checkout.directory.join("integration/upgrade"), { recursive: true })
    checkout.write("integration/upgrade/1.2.3.json", "{}")
    await checkout.git("init", "--quiet", "--initial-branch=main")
    await checkout.commit()
    return checkout
  }

  write(name: string, text: string): void {
    writeFileSync(this.directory.join(name), text)
  }

  async git(...words: string[]): Promise<string> {
    const author = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
    return (await mustRun(["git", "-C", this.directory.path, ...author, ...words])).stdout.trim()
  }

  async commit(): Promise<void> {
    await this.git("add", "--all")
    await this.git("commit", "--quiet", "--allow-empty", "--message", "A change")
  }

  async recordTested(): Promise<void> {
    await recordTested(this.directory.path, await this.git("rev-parse", "HEAD"))
  }

  findObstacles(): Promise<string[]> {
    return findObstacles(this.directory.path)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.directory[Symbol.asyncDispose]()
  }
}

const changelog =
  "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n\n### Added\n\n- a\n\n## [1.2.2] - 2025-01-02\n\n- b\n"

/** Returns a checkout that meets every requirement of a release. */
async function release(): Promise<Checkout> {
  const checkout = await Checkout.create(changelog)
  await checkout.git("tag", "--annotate", "--message", "1.2.3", "v1.2.3")
  await checkout.recordTested()
  expect(await checkout.findObstacles()).toEqual([])
  return checkout
}

test("the text of a release is its section of the changelog", () => {
  expect(findSection(changelog, "1.2.3")).toBe("### Added\n\n- a")
  expect(findSection(changelog, "1.2.2")).toBe("- b")
  expect(findSection(changelog, "1.2")).toBeUndefined()
  expect(findSection(changelog, "Unreleased")).toBe("")
})

test("a file that differs, or that git does not know, is no release", async () => {
  await using checkout = await release()
  checkout.write("other", "")
  expect(await checkout.findObstacles()).toEqual(["files differ from the commit: see git status"])
})

test("a version whose files and rules were not recorded is no release", async () => {
  await using checkout = await release()
  rmSync(checkout.directory.join("integration/upgrade/1.2.3.json"))
  await checkout.git("commit", "--quiet", "--all", "--amend", "--message", "A change")
  expect(await checkout.findObstacles()).toContain(
    "what 1.2.3 leaves on a node is not recorded: bun integration/upgrade/record.ts",
  )
})

test("a commit after the tag is no release, with the same files neither", async () => {
  await using checkout = await release()
  const tagged = await checkout.git("rev-parse", "HEAD")
  await checkout.commit()
  expect(await checkout.findObstacles()).toEqual([`the tag v1.2.3 is on another commit, ${tagged}`])
})

test("other files than those that were tested are no release; the same files under another commit are", async () => {
  await using checkout = await release()
  checkout.write("other", "")
  await checkout.commit()
  await checkout.git("tag", "--annotate", "--force", "--message", "1.2.3", "v1.2.3")
  expect(await checkout.findObstacles()).toEqual([
    "no record says that all tests of these files have passed: run .ci/run",
  ])
  await checkout.recordTested()
  await checkout.commit()
  await checkout.git("tag", "--annotate", "--force", "--message", "1.2.3", "v1.2.3")
  expect(await checkout.findObstacles()).toEqual([])
})

test("a tag without an author is no release", async () => {
  await using checkout = await release()
  await checkout.git("tag", "--force", "v1.2.3")
  expect(await checkout.findObstacles()).toEqual([
    "the tag v1.2.3 has no author and no date: make it with git tag --sign, or --annotate",
  ])
})

test.each([
  [
    "a version that the changelog has not",
    "## [1.2.2] - 2025-01-02\n\n- b\n",
    "CHANGELOG.md says nothing about version 1.2.3",
  ],
  [
    "a section without text",
    "## [1.2.3] - 2026-01-02\n\n## [1.2.2]\n\n- b\n",
    "CHANGELOG.md says nothing about version 1.2.3",
  ],
  [
    "a section without a date",
    "## [1.2.3]\n\n- a\n",
    'the headline of 1.2.3 in CHANGELOG.md has no date: expected "## [1.2.3] - YYYY-MM-DD"',
  ],
  [
    "changes of a later version",
    "## [Unreleased]\n\n- c\n\n## [1.2.3] - 2026-01-02\n\n- a\n",
    "CHANGELOG.md has changes under Unreleased",
  ],
])("%s is no release, which has neither tag nor tests", async (_, text, obstacle) => {
  await using checkout = await Checkout.create(text)
  expect(await checkout.findObstacles()).toEqual([
    obstacle,
    "there is no tag v1.2.3: git tag --sign v1.2.3",
    "no record says that all tests of these files have passed: run .ci/run",
  ])
})

test("tests are recorded for the files that were tested only", async () => {
  await using checkout = await Checkout.create(changelog)
  const tested = await checkout.git("rev-parse", "HEAD")
  checkout.write("other", "")
  await expect(recordTested(checkout.directory.path, tested)).rejects.toThrow("files differ from the commit")
  await checkout.commit()
  await expect(recordTested(checkout.directory.path, tested)).rejects.toThrow("the checkout is at")
})
