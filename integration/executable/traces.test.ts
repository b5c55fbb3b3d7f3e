import { expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { buildFromBytecode, buildFromSnapshot } from "../../scripts/native.ts"
import { runProgram, TemporaryDirectory } from "../lab/mod.ts"

const fixture = join(import.meta.dir, "throwing.fixture.ts")
const programs = [{ name: "throwing", run: { main: fixture, name: "run" } }]

/**
 * Runs a program that fails, and returns its message and the stack as "function file:line", the innermost call first.
 * Includes only calls of the fixture, and removes the bundler's additions to names.
 */
async function framesOf(command: readonly string[], network: string): Promise<{ msg: string; frames: string[] }> {
  const env = {
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "a",
    CNI_NETNS: "/no/such/namespace",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/",
  }
  const input = JSON.stringify({ cniVersion: "1.1.0", name: network })
  const { stdout, exitCode } = await runProgram(command, { env, input })
  expect(exitCode).toBe(1)
  const { msg, details } = JSON.parse(stdout) as { msg: string; details: string }
  const frames = details.slice(details.lastIndexOf("at ") + 3).split(", ")
  const own = frames.filter((frame) => frame.includes("fixture") && !frame.startsWith("add "))
  return { msg, frames: own.map((frame) => frame.replace(/^([a-z]+)\d+ /i, "$1 ")) }
}

/** Returns the file and number of the fixture's line that contains a text. */
async function lineOf(text: string): Promise<string> {
  const lines = (await readFile(fixture, "utf8")).split("\n")
  return `integration/executable/throwing.fixture.ts:${lines.findIndex((line) => line.includes(text)) + 1}`
}

test("a bug is reported with function and line of the source, from a heap image as from bytecode and on Bun", async () => {
  await using directory = await TemporaryDirectory.create("cni-traces", join(import.meta.dir, "../../dist"))
  await buildFromSnapshot(directory.join("snapshot/throwing"), {}, programs)
  await buildFromBytecode(directory.join("bytecode/throwing"), {}, programs)
  const bug = [
    `lookInto ${await lineOf("value.inner as")}`,
    `describe ${await lineOf("lookInto(this.#value)")}`,
    `fail ${await lineOf("outer.describe()")}`,
  ]
  const recursion = Array(4).fill(`forever ${await lineOf("forever(depth + 1)")}`)
  for (const command of [
    [directory.join("snapshot/throwing")],
    [directory.join("bytecode/throwing")],
    [process.execPath, fixture],
  ]) {
    expect(await framesOf(command, "bug")).toMatchObject({ msg: expect.stringContaining("undefined"), frames: bug })
    expect(await framesOf(command, "recursion")).toEqual({ msg: "Cannot finish: not enough stack", frames: recursion })
  }
})
