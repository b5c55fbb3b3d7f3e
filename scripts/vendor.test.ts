import { describe, expect, test } from "bun:test"
import { createHash } from "node:crypto"
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pinnedEngine, pinnedMusl, requireVendored } from "./sources.ts"

const project = join(import.meta.dir, "..")

/** Creates a directory that is deleted at the end of its scope. */
function scratch() {
  const path = mkdtempSync(join(tmpdir(), "cni-vendor-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

function write(directory: string, file: string, text: string): string {
  mkdirSync(join(directory, file, ".."), { recursive: true })
  writeFileSync(join(directory, file), text)
  return join(directory, file)
}

const hash = (algorithm: string, text: string, encoding: "hex" | "base64") =>
  createHash(algorithm).update(text).digest(encoding)

describe.each([
  ["the engine", pinnedEngine()],
  ["musl for arm64", pinnedMusl()],
])("the vendored archive of %s", (_, pinned) => {
  test("is taken when its hash is the one that is pinned", () => {
    using directory = scratch()
    const file = write(directory.path, pinned.vendored, "content")
    expect(requireVendored(directory.path, { ...pinned, sha256: hash("sha256", "content", "hex") })).toBe(file)
  })

  test("is refused by name when it is missing, and when it has other bytes", () => {
    using directory = scratch()
    const refuse = () => requireVendored(directory.path, pinned)
    const cannot = `Cannot build from "${directory.path}": "${pinned.vendored}"`
    expect(refuse).toThrow(`${cannot}, which ${pinned.pin} pins, is missing or cannot be read`)
    write(directory.path, pinned.vendored, "other content")
    expect(refuse).toThrow(`${cannot} is not the file that ${pinned.pin} pins`)
  })
})

/** Creates a project that needs one npm package, and a vendored directory with that package. */
function smallProject(directory: string): { vendored: string; archive: string } {
  const locked = { version: "1.0.0", integrity: `sha512-${hash("sha512", "archive", "base64")}` }
  write(directory, "package.json", `{ "type": "module" }`)
  write(directory, "package-lock.json", JSON.stringify({ packages: { "": {}, "node_modules/@a/b": locked } }))
  cpSync(join(project, "scripts/vendored.js"), join(directory, "scripts/vendored.js"))
  cpSync(join(project, "scripts/setup.sh"), join(directory, "scripts/setup.sh"))
  const archive = write(directory, "vendored/npm/a-b-1.0.0.tgz", "archive")
  write(directory, "vendored/SHA256SUMS", `${hash("sha256", "archive", "hex")}  npm/a-b-1.0.0.tgz\n`)
  return { vendored: join(directory, "vendored"), archive }
}

/** Runs the set-up of that project with a fake npm that prints its arguments. */
function setUp(directory: string, vendored: string) {
  const npm = write(
    directory,
    "bin/npm",
    '#!/bin/sh\necho "npm $1 $2"\nmkdir node_modules\ncp package-lock.json node_modules/\n',
  )
  chmodSync(npm, 0o755)
  const env = { PATH: `${join(directory, "bin")}:${process.env.PATH}`, CNI_VENDOR: vendored }
  const { stdout, stderr, exitCode } = Bun.spawnSync([join(directory, "scripts/setup.sh")], { env })
  return { stdout: stdout.toString(), stderr: stderr.toString(), exitCode }
}

describe("the set-up from a vendored directory", () => {
  test("has npm install the archives, without a network", () => {
    using directory = scratch()
    const { vendored, archive } = smallProject(directory.path)
    expect(setUp(directory.path, vendored)).toEqual({ stdout: "npm install --offline\n", stderr: "", exitCode: 0 })
    const { packages } = JSON.parse(readFileSync(join(directory.path, "node_modules/package-lock.json"), "utf8"))
    expect(packages["node_modules/@a/b"].resolved).toBe(`file:${archive}`)
  })

  test.each<[string, (archive: string, vendored: string) => void, string]>([
    ["a file is missing", (archive) => rmSync(archive), "npm/a-b-1.0.0.tgz: No such file or directory"],
    ["a file is altered", (archive) => writeFileSync(archive, "archivE"), "npm/a-b-1.0.0.tgz: FAILED"],
    ["the directory is missing", (_, vendored) => rmSync(vendored, { recursive: true }), "No such file or directory"],
    [
      "it was made for another lock file",
      (archive, vendored) => {
        writeFileSync(archive, "another")
        writeFileSync(join(vendored, "SHA256SUMS"), `${hash("sha256", "another", "hex")}  npm/a-b-1.0.0.tgz\n`)
      },
      '"npm/a-b-1.0.0.tgz" is not the file that package-lock.json pins',
    ],
    [
      "it was made for an older lock file",
      (archive, vendored) => {
        rmSync(archive)
        writeFileSync(join(vendored, "packages.txt"), "text")
        writeFileSync(join(vendored, "SHA256SUMS"), `${hash("sha256", "text", "hex")}  packages.txt\n`)
      },
      '"npm/a-b-1.0.0.tgz", which package-lock.json pins, is missing',
    ],
  ])("ends with one line when %s", (_, spoil, reason) => {
    using directory = scratch()
    const { vendored, archive } = smallProject(directory.path)
    spoil(archive, vendored)
    const { stdout, stderr, exitCode } = setUp(directory.path, vendored)
    expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 1 })
    expect(stderr).toStartWith(`Cannot build from "${vendored}": `)
    expect(stderr).toContain(reason)
    expect(stderr.trimEnd().split("\n")).toHaveLength(1)
  })
})
