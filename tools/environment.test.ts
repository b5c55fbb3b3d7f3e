import { describe, expect, test } from "bun:test"
import { attachmentOf, containerIdOf, readPath } from "./environment.ts"

// printf /var/run/netns/testing | sha512sum | cut -c1-20
test("the container's ID is that of upstream's cnitool", () => {
  expect(containerIdOf("/var/run/netns/testing")).toBe("cnitool-77383ca0a0715733ca6f")
  expect(containerIdOf("/var/run/../run/netns/testing")).toBe("cnitool-77383ca0a0715733ca6f")
})

test("an attachment is what is given, else what the environment says, else eth0", () => {
  expect(attachmentOf({}, "/var/run/netns/testing", {})).toEqual({
    containerId: "cnitool-77383ca0a0715733ca6f",
    ifName: "eth0",
    netns: "/var/run/netns/testing",
    args: [],
    capabilityArgs: {},
  })
  const env = { CNI_IFNAME: "net1", CNI_ARGS: "a=b;c=d", CAP_ARGS: '{"mac":"x"}' }
  expect(attachmentOf(env, "/a/../b", { containerId: "c1" })).toEqual({
    containerId: "c1",
    ifName: "net1",
    netns: "/b",
    capabilityArgs: { mac: "x" },
    args: [
      ["a", "b"],
      ["c", "d"],
    ],
  })
  expect(attachmentOf(env, "/a", { ifName: "net2" }).ifName).toBe("net2")
  expect(attachmentOf({ CNI_IFNAME: "" }, "/a", {}).ifName).toBe("eth0")
})

describe("what cannot be understood is refused with code 4", () => {
  const refusal = (env: Record<string, string>) => {
    try {
      attachmentOf(env, "/a", {})
      return undefined
    } catch (error) {
      return { ...(error as { code: number }), message: (error as Error).message }
    }
  }

  test.each(["a", "a=", "=b", "a=b=c", "a=b;", ";a=b"])("CNI_ARGS %p", (CNI_ARGS) => {
    const pair = CNI_ARGS.split(";").find((each) => each !== "a=b")
    expect(refusal({ CNI_ARGS })).toMatchObject({ code: 4, message: `invalid CNI_ARGS pair "${pair}"` })
  })

  test("CAP_ARGS", () => {
    for (const CAP_ARGS of ["[]", "5"]) {
      expect(refusal({ CAP_ARGS })).toMatchObject({
        code: 4,
        message: 'Cannot use CAP_ARGS: expected a JSON object like {"mac":"0a:00:00:00:00:01"}',
      })
    }
    expect(refusal({ CAP_ARGS: "{" })).toMatchObject({ code: 4, message: "Cannot use CAP_ARGS" })
  })
})

test("a list of directories is made absolute, and empty elements are left out", () => {
  expect(readPath(":/a/b::c:/d/../e:")).toEqual(["/a/b", `${process.cwd()}/c`, "/e"])
  expect(readPath("")).toEqual([])
})
