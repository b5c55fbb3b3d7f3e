import { describe, expect, test } from "bun:test"
import { pluginError, readResult, readVersions } from "./printed.ts"

describe("the answer to VERSION", () => {
  test("#159 is the list that it has, also beside 0.2.0", () => {
    expect(readVersions('{"cniVersion":"0.2.0","supportedVersions":["0.3.0","1.0.0"]}')).toEqual(["0.3.0", "1.0.0"])
    expect(readVersions('{"CNIVersion":"1.0.0","SupportedVersions":["1.0.0"]}')).toEqual(["1.0.0"])
  })

  test("#159 takes 0.2.0 without a list for 0.1.0 and 0.2.0", () => {
    expect(readVersions('{"cniVersion":"0.2.0"}')).toEqual(["0.1.0", "0.2.0"])
    expect(readVersions('{"cniVersion":"0.2.0","supportedVersions":[]}')).toEqual(["0.1.0", "0.2.0"])
  })

  test.each([
    "",
    "oops",
    "{}",
    '{"cniVersion":""}',
    '{"cniVersion":"","supportedVersions":["1.0.0"]}',
    '{"cniVersion":5,"supportedVersions":["1.0.0"]}',
    '{"supportedVersions":["1.0.0"]}',
    '{"cniVersion":"1.0.0"}',
    '{"cniVersion":"1.0.0","supportedVersions":[]}',
    '{"cniVersion":"1.0.0","supportedVersions":[1]}',
    '{"cniVersion":"1.0.0","supportedVersions":"1.0.0"}',
  ])("#160 refuses the answer %j", (answer) => {
    expect(() => readVersions(answer)).toThrow(expect.objectContaining({ code: 6 }))
  })

  test.each([
    ["[]", "Cannot decode the answer of bridge to VERSION: expected a JSON object, found []"],
    ["{}", "Cannot read the answer of bridge to VERSION: it has no cniVersion"],
    [
      '{"cniVersion":"1.0.0","supportedVersions":{}}',
      "Cannot read the answer of bridge to VERSION: its supportedVersions is not a list",
    ],
    [
      '{"cniVersion":"1.0.0"}',
      "Cannot read the answer of bridge to VERSION: its supportedVersions is missing or empty",
    ],
    [
      '{"cniVersion":"1.0.0","supportedVersions":["1.0.0",1]}',
      "Cannot read the answer of bridge to VERSION: its supportedVersions has elements that are not strings",
    ],
  ])("#160 says of %j: %s", (answer, message) => {
    expect(() => readVersions(answer, "bridge")).toThrow(expect.objectContaining({ message }))
    expect(() => readVersions(answer)).toThrow(message.replace("bridge", "the plugin"))
  })
})

test("of what a plugin has printed without an end, an error quotes the beginning", () => {
  const text = "x".repeat(65_537)
  const head = JSON.stringify("x".repeat(65_536))
  const failed = pluginError({ stdout: "", stderr: text, cause: "exit status 1" })
  expect(failed.message).toBe(`netplugin failed: ${head} and 1 characters more: exit status 1`)
  expect(pluginError({ stdout: "", stderr: text.slice(1), cause: "exit status 1" }).message).toBe(
    `netplugin failed: ${head}: exit status 1`,
  )
})

describe("an error object", () => {
  const failed = (stdout: string) => pluginError({ stdout, stderr: "", cause: "exit status 1" })

  test.each([
    ['{"code":1.5}', "its code is not a non-negative integer"],
    ['{"code":-1}', "its code is not a non-negative integer"],
    ['{"code":9007199254740992}', "its code is not a non-negative integer"],
    ['{"code":1,"msg":1}', "its msg or details is not a string"],
    ['{"code":1,"details":1}', "its msg or details is not a string"],
    ["[]", "Cannot decode the error object: expected a JSON object, found []"],
  ])("that is %s is quoted: %s", (text, reason) => {
    const message = `netplugin failed but error parsing its diagnostic message ${JSON.stringify(text)}: ${reason}`
    expect(failed(text)).toMatchObject({ code: 0, message, details: "exit status 1" })
  })

  test("has any code that is a whole number, and what it says is passed on", () => {
    expect(failed('{"code":9007199254740991,"msg":"no"}')).toMatchObject({ code: 9007199254740991, message: "no" })
    expect(failed('{"code":1,"msg":"no","details":"why"}')).toMatchObject({ code: 1, message: "no", details: "why" })
    expect(failed('{"code":1,"msg":"no"}').details ?? "").toBe("")
  })
})

test("a result that cannot be read has the code of the reason, 6 for what is not an object", () => {
  for (const [text, code, reason] of [
    ["[]", 6, "Cannot decode the result: expected a JSON object, found []"],
    [
      '{"cniVersion":"9.0.0"}',
      1,
      'Cannot use the result: unsupported CNI result version "9.0.0": expected one of 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0',
    ],
  ] as const)
    expect(() => readResult(text, "1.0.0")).toThrow(
      expect.objectContaining({ code, message: `failed to unmarshal raw result: ${reason}` }),
    )
})
