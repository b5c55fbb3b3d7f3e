import { expect, test } from "bun:test"
import { Code, isCniError, parseCidr, parseCniArgs, parseCniBoolean, parseMac, readCniArgs } from "./mod.ts"

const text = (value: string) => value

function refusal(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (isCniError(error, Code.InvalidEnvironment)) return error.message
    throw error
  }
  return "nothing was thrown"
}

test("#246 an unknown key is refused, unless IgnoreUnknown is set, in any place", () => {
  expect(readCniArgs("IgnoreUnknown=True;Unk=nown", {})).toEqual({})
  expect(readCniArgs("Unk=nown;IgnoreUnknown=1", {})).toEqual({})
  expect(refusal(() => readCniArgs("Unk=nown", {}))).toBe('CNI_ARGS: unknown args ["Unk=nown"]')
  expect(refusal(() => readCniArgs("Unk=nown;a=;IgnoreUnknown=0", {}))).toBe('CNI_ARGS: unknown args ["Unk=nown" "a="]')
})

test("#247 pairs are separated by semicolons only", () => {
  expect(refusal(() => readCniArgs("IgnoreUnknown=0, Unk=nown", {}))).toContain('"IgnoreUnknown=0, Unk=nown"')
})

test("#248 1 and true are true, 0 and false are false in any case, and nothing else is either", () => {
  for (const value of ["1", "true", "True", "TRUE"]) expect(parseCniBoolean(value)).toBe(true)
  for (const value of ["0", "false", "False", "FALSE"]) expect(parseCniBoolean(value)).toBe(false)
  for (const value of ["", "yes", "2", "t", "10", " 1"]) expect(parseCniBoolean(value)).toBeUndefined()
  expect(refusal(() => readCniArgs("IgnoreUnknown=yes", {}))).toContain('"IgnoreUnknown=yes"')
})

test("#249 an empty text sets nothing", () => {
  expect(readCniArgs("", { IP: parseCidr })).toEqual({})
  expect(parseCniArgs("").size).toBe(0)
})

test("#250 a known key whose value cannot be read is refused by name and value", () => {
  expect(refusal(() => readCniArgs("MAC=nonsense", { MAC: parseMac }))).toContain('"MAC=nonsense"')
})

test("known keys arrive read; a later duplicate wins; a value may be empty", () => {
  const args = readCniArgs("K8S_POD_NAME=web;MAC=0a:00:00:00:00:01;K8S_POD_NAME=db;NOTE=", {
    K8S_POD_NAME: text,
    MAC: parseMac,
    NOTE: text,
  })
  expect(args).toEqual({ K8S_POD_NAME: "db", MAC: Uint8Array.of(10, 0, 0, 0, 0, 1), NOTE: "" })
})

test("keys are case-sensitive", () => {
  expect(refusal(() => readCniArgs("mac=0a:00:00:00:00:01", { MAC: parseMac }))).toContain('unknown args ["mac=')
})

test.each(["IP", "IP=1.2.3.4;", ";", "IP=a=b", "IP=1.2.3.4;;MAC=x"])("%p is not a list of pairs", (args) => {
  expect(refusal(() => parseCniArgs(args))).toContain("invalid pair")
})

test("names that every object has are ordinary unknown keys", () => {
  expect(refusal(() => readCniArgs("toString=1", {}))).toContain('unknown args ["toString=1"]')
  expect(readCniArgs("IgnoreUnknown=1;__proto__=1;constructor=2", {})).toEqual({})
})
