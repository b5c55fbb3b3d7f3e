import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { hostname, machine as nodeMachine, release, tmpdir, version } from "node:os"
import { join } from "node:path"
import { executablePath, findProgram, hostName, isExecutableFile, kernelVersion, machine, processId } from "./host.ts"

describe("what the process and its host are called is what node:os says", () => {
  test("the process", () => {
    expect(processId()).toBe(process.pid)
    expect(executablePath()).toBe(realpathSync(process.execPath))
  })

  test("the host", () => {
    expect(hostName()).toBe(hostname())
    expect(kernelVersion()).toEqual({ release: release(), version: version() })
    expect(machine()).toBe(nodeMachine())
  })
})

describe("a program is found by PATH", () => {
  let directory = ""
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "libc-host-"))
    for (const place of ["a", "b", "c"]) mkdirSync(join(directory, place))
    mkdirSync(join(directory, "a/tool")) // a directory with the program's name
    for (const place of ["b", "c"]) writeFileSync(join(directory, place, "tool"), "")
    chmodSync(join(directory, "c/tool"), 0o755)
    symlinkSync("../c/tool", join(directory, "b/other"))
  })
  afterAll(() => rmSync(directory, { recursive: true }))

  const found = (name: string, ...places: string[]) =>
    findProgram(name, places.map((place) => join(directory, place)).join(":"))

  test("in the first directory where it may be executed", () => {
    expect(found("tool", "a", "b", "c")).toBe(join(directory, "c/tool"))
    expect(found("other", "b")).toBe(join(directory, "b/other"))
  })

  test("nowhere, where it is not", () => {
    expect(found("tool", "a", "b", "missing", "c/tool")).toBeUndefined()
    expect(isExecutableFile(join(directory, "c/tool/x"))).toBe(false)
  })

  test("in the usual directories without PATH", () => {
    for (const path of ["", undefined]) expect(findProgram("sh", path)).toEndWith("/sh")
  })
})
