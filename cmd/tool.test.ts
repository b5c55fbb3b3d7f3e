import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import type { Command } from "../tools/command.ts"
import { recordingTerminal } from "../tools/testing.ts"
import { runTool, type Tool } from "./tool.ts"

function toolWith(fail: () => never): Tool {
  const broken: Command = {
    summary: "",
    words: [],
    flags: { json: { type: "boolean", help: "" } },
    help: "",
    run: async () => fail(),
  }
  return { name: "tool", about: "", example: "", commands: { broken }, groups: {} }
}

async function run(fail: () => never, ...args: string[]) {
  const terminal = recordingTerminal({})
  return { code: await runTool(toolWith(fail), ["broken", ...args], terminal), out: terminal.out, err: terminal.err }
}

function mistake(): never {
  const nothing: { list?: string[] } = {}
  throw new Error(String((nothing.list as string[]).length))
}

const line =
  readFileSync(import.meta.path, "utf8")
    .split("\n")
    .findIndex((text) => text.includes("nothing.list as")) + 1
const place = `at mistake cmd/tool.test.ts:${line}, `

test("an error of the language is a bug: the lines of the sources that it comes from are told", async () => {
  const { code, out, err } = await run(mistake)
  expect([code, out]).toEqual([1, ""])
  expect(err).toStartWith("tool broken: undefined is not an object")
  expect(err).toContain(`\n  ${place}`)
  const json = JSON.parse((await run(mistake, "--json")).out)
  expect(json).toMatchObject({ code: 999, details: expect.stringContaining(place) })
})

test("other errors have their message alone", async () => {
  const refuse = () => {
    throw new Error("Cannot look: the node is gone")
  }
  expect(await run(refuse)).toEqual({ code: 1, out: "", err: "tool broken: Cannot look: the node is gone\n" })
  expect(JSON.parse((await run(refuse, "--json")).out)).toEqual({
    cniVersion: "1.1.0",
    code: 999,
    msg: "Cannot look: the node is gone",
  })
})
