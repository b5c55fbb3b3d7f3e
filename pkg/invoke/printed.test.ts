import { describe, expect, test } from "bun:test"
import { pluginError, readVersions } from "./printed.ts"

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
