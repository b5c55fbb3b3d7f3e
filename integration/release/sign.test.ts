import { afterAll, beforeAll, expect, test } from "bun:test"
import { appendFile, cp, readFile, writeFile } from "node:fs/promises"
import { root } from "../../scripts/engine.ts"
import { sumsName } from "../../scripts/release/packages.ts"
import { provenanceName, provenanceOf, sumsOf } from "../../scripts/release/provenance.ts"
import { checkFiles, signSums } from "../../scripts/release/sign.ts"
import { spdxOf } from "../../scripts/release/spdx.ts"
import { mustRun, runProgram, TemporaryDirectory } from "../lab/mod.ts"
import { Page } from "./page.ts"

const releaser = "releaser@example.org"
const commit = "0123456789abcdef0123456789abcdef01234567"
let directory: TemporaryDirectory

/** Creates two files, their statements, and a temporary key whose public half is in `allowed_signers`. */
beforeAll(async () => {
  directory = await TemporaryDirectory.create("cni-signed")
  for (const name of ["one", "two"]) await writeFile(directory.join(name), name)
  const source = { commit, isClean: true }
  await writeFile(
    directory.join(provenanceName),
    await provenanceOf(directory.path, ["one", "two"], { root, source, age: 1 }),
  )
  await writeFile(directory.join(sumsName), sumsOf(directory.path, ["one", "two", provenanceName]))
  for (const key of ["key", "other"])
    await mustRun(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory.join(key)])
  const line = `${releaser} namespaces="cni-plugins-release" ${await readFile(directory.join("key.pub"), "utf8")}`
  await writeFile(directory.join("allowed_signers"), line)
  await signSums(directory.path, directory.join("key"))
})
afterAll(() => directory[Symbol.asyncDispose]())

/** Runs the commands of the page on a copy of the directory after `change`. */
async function verify(change: (copy: TemporaryDirectory) => Promise<unknown>) {
  await using copy = await TemporaryDirectory.create("cni-verified")
  await cp(directory.path, copy.path, { recursive: true })
  await change(copy)
  const lines = (await Page.read("docs/install.md", "Install")).commands("verify")
  return await runProgram(["sh", "-ec", `cd ${copy.path}\n${lines.replaceAll("ADDRESS", releaser)}`])
}

test("the lines of docs/install.md verify a signed release, also a part of its files", async () => {
  const whole = await verify(async () => {})
  expect(whole.exitCode).toBe(0)
  expect(whole.stdout).toContain('Good "cni-plugins-release" signature')
  expect(whole.stdout).toContain(`${provenanceName}: OK`)
  const part = await verify((copy) => mustRun(["rm", copy.join("two")]))
  expect(part.exitCode).toBe(0)
  expect(part.stdout).toContain("one: OK")
})

test.each<[string, string, (copy: TemporaryDirectory) => Promise<unknown>]>([
  ["a file that was changed", "one: FAILED", (copy) => appendFile(copy.join("one"), " ")],
  [
    "sums that were changed",
    "incorrect signature",
    (copy) => appendFile(copy.join(sumsName), `${"0".repeat(64)}  three\n`),
  ],
  ["sums that another key signed", "Could not verify signature", (copy) => signSums(copy.path, copy.join("other"))],
  [
    "sums that the key signed for another purpose",
    "namespace does not match",
    async (copy) => {
      await mustRun(["rm", copy.join(`${sumsName}.sig`)])
      await mustRun(["ssh-keygen", "-q", "-Y", "sign", "-f", copy.join("key"), "-n", "file", copy.join(sumsName)])
    },
  ],
])("they refuse %s: %s [S142]", async (_, reason, change) => {
  const { exitCode, stdout, stderr } = await verify(change)
  expect(exitCode).not.toBe(0)
  expect(stdout + stderr).toContain(reason)
})

test("files are signed only as they were made, from the commit that is checked out", async () => {
  const check = () => checkFiles(directory.path, commit)
  check()
  expect(() => checkFiles(directory.path, "f".repeat(40))).toThrow("were not made from commit")
  expect(() => checkFiles(directory.path, undefined)).toThrow("were not made from commit")
  await writeFile(directory.join("two"), "changed")
  expect(check).toThrow(`differ from ${sumsName}`)
  await mustRun(["rm", directory.join("two")])
  expect(check).toThrow('"two" is missing')
})

test("the provenance is in-toto's statement about each file, and names no commit whose files were changed", async () => {
  await using place = await TemporaryDirectory.create("cni-provenance")
  await writeFile(place.join("file"), "x")
  const tell = async (isClean: boolean) =>
    JSON.parse(await provenanceOf(place.path, ["file"], { root, source: { commit, isClean }, age: 7 }))
  const { predicate, ...statement } = await tell(true)
  const { stdout } = await mustRun(["sha256sum", place.join("file")])
  expect(statement).toEqual({
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: "file", digest: { sha256: stdout.split(" ")[0] } }],
    predicateType: "https://slsa.dev/provenance/v1",
  })
  const { externalParameters, resolvedDependencies } = predicate.buildDefinition
  expect(externalParameters).toMatchObject({ SOURCE_DATE_EPOCH: 7 })
  expect(resolvedDependencies[0]).toEqual({ name: "source", digest: { gitCommit: commit } })
  const debian = await mustRun(["dpkg-query", "--show", `--showformat=\${Version}`, "dpkg"])
  expect(resolvedDependencies).toContainEqual({ uri: expect.stringContaining(`/dpkg@${debian.stdout}?`) })
  const changed = (await tell(false)).predicate.buildDefinition.resolvedDependencies[0]
  expect(changed).toEqual({ name: "source", uri: "file:.", annotations: { changedSince: commit } })
})

test("SPDX has each component of the bill in CycloneDX, with its version, hash, license and URL", () => {
  const component = {
    "bom-ref": "@a/b",
    name: "@a/b",
    version: "1.2",
    purl: "pkg:npm/%40a/b@1.2",
    hashes: [{ alg: "SHA-512", content: "00" }],
    licenses: [{ license: { id: "MIT" } }],
  }
  const product = { "bom-ref": "cni-plugins", name: "cni-plugins", version: "3" }
  const tools = { components: [{ "bom-ref": "gcc", name: "gcc", version: "4" }] }
  const metadata = { timestamp: "2026-01-02T03:04:05.000Z", component: product, tools }
  const bill = { serialNumber: "urn:uuid:u", metadata, components: [component] }
  const { packages, relationships, creationInfo } = JSON.parse(spdxOf(JSON.stringify(bill), "file.tgz"))
  expect(creationInfo.created).toBe("2026-01-02T03:04:05Z")
  expect(packages[1]).toMatchObject({
    SPDXID: "SPDXRef--a-b",
    name: "@a/b",
    versionInfo: "1.2",
    licenseDeclared: "MIT",
    checksums: [{ algorithm: "SHA512", checksumValue: "00" }],
    externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: component.purl }],
  })
  expect(relationships).toEqual([
    { spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-cni-plugins" },
    { spdxElementId: "SPDXRef-cni-plugins", relationshipType: "CONTAINS", relatedSpdxElement: "SPDXRef--a-b" },
    { spdxElementId: "SPDXRef-gcc", relationshipType: "BUILD_TOOL_OF", relatedSpdxElement: "SPDXRef-cni-plugins" },
  ])
})
