import { describe, expect, test } from "bun:test"
import { readVersions } from "./printed.ts"

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
