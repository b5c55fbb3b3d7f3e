import { describe, expect, test } from "bun:test"
import { PluginDirectory } from "./directory.fixture.ts"
import { probeVersions, readVersions } from "./printed.ts"

function probe(body: string): string[] {
  using directory = new PluginDirectory()
  const path = directory.script("plugin", body)
  return probeVersions({ path, env: { PATH: process.env.PATH, CNI_CONTAINERID: "c", CNI_IFNAME: "eth0" } })
}

describe("a version probe", () => {
  test("#157 asks with dummies and the newest version, and reads the list", () => {
    expect(probe('echo "{\\"cniVersion\\":\\"1.1.0\\",\\"supportedVersions\\":[\\"0.4.0\\"]}"')).toEqual(["0.4.0"])
    const echoed = probe(
      `printf '{"cniVersion":"1","supportedVersions":["%s","%s"]}' "$CNI_COMMAND.$CNI_CONTAINERID.$CNI_NETNS.$CNI_IFNAME.$CNI_PATH.$CNI_ARGS" "$(base64)"`,
    )
    expect(echoed).toEqual(["VERSION..dummy.dummy.dummy.", btoa('{"cniVersion":"1.1.0"}')])
  })

  test("#158 takes a plugin that does not know the verb for one of 0.1.0", () => {
    expect(probe(`echo '{"code":100,"msg":"unknown CNI_COMMAND: VERSION"}'; exit 1`)).toEqual(["0.1.0"])
  })

  test("#158 hands on any other error", () => {
    expect(() => probe(`echo '{"code":100,"msg":"unknown CNI_COMMAND: VERSION","details":"x"}'; exit 1`)).toThrow()
    expect(() => probe("exit 2")).toThrow("exit status 2")
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
    '{"supportedVersions":["1.0.0"]}',
    '{"cniVersion":"1.0.0"}',
    '{"cniVersion":"1.0.0","supportedVersions":[]}',
    '{"cniVersion":"1.0.0","supportedVersions":[1]}',
    '{"cniVersion":"1.0.0","supportedVersions":"1.0.0"}',
  ])("#160 refuses the answer %j", (answer) => {
    expect(() => readVersions(answer)).toThrow(expect.objectContaining({ code: 6 }))
  })
})
