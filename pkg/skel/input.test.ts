import { describe, expect, test } from "bun:test"
import { ask, Recorder } from "./plugin.fixture.ts"

const { plugin } = new Recorder()

test("DEL of a network without a usable name is refused, and its log does not say that it goes on", () => {
  const network = { cniVersion: "1.1.0", name: "no name", ipam: 5 }
  expect(ask(plugin, { CNI_COMMAND: "DEL" }, network)).toMatchObject({ exitCode: 1, json: { code: 7 }, log: [] })
})

describe("missing variables", () => {
  test.each(["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"])("#51 ADD without %s is refused and names it", (name) => {
    const { json, exitCode } = ask(plugin, { CNI_COMMAND: "ADD", [name]: undefined })
    expect(json).toMatchObject({ code: 4, msg: `required env variables [${name}] missing` })
    expect(exitCode).toBe(1)
  })

  test.each(["ADD", "CHECK", "DEL"])("#52 %s without CNI_PATH is refused", (command) => {
    const { json } = ask(plugin, { CNI_COMMAND: command, CNI_PATH: undefined })
    expect(json).toMatchObject({
      code: 4,
      msg: "required env variables [CNI_PATH] missing",
      details: `${command} needs CNI_CONTAINERID, ${command === "DEL" ? "" : "CNI_NETNS, "}CNI_IFNAME, CNI_PATH, which the container runtime sets`,
    })
  })

  test("#53 ADD without CNI_ARGS proceeds", () => {
    const recorder = new Recorder()
    expect(ask(recorder.plugin, { CNI_COMMAND: "ADD", CNI_ARGS: undefined }).exitCode).toBe(0)
    expect(recorder.calls[0]?.args).toBe("")
  })

  test("#54 all that is missing is named in one message, in this order", () => {
    const none = { CNI_NETNS: undefined, CNI_IFNAME: undefined, CNI_PATH: "" }
    const { json } = ask(plugin, { CNI_COMMAND: "ADD", ...none })
    expect(json).toMatchObject({ code: 4, msg: "required env variables [CNI_NETNS,CNI_IFNAME,CNI_PATH] missing" })
  })

  test("#55 DEL without CNI_NETNS proceeds", () => {
    const recorder = new Recorder()
    expect(ask(recorder.plugin, { CNI_COMMAND: "DEL", CNI_NETNS: undefined }).exitCode).toBe(0)
    expect(recorder.calls[0]?.netns).toBe("")
  })

  test("#56 CHECK without CNI_NETNS is refused", () => {
    const { json } = ask(plugin, { CNI_COMMAND: "CHECK", CNI_NETNS: undefined })
    expect(json).toMatchObject({ code: 4, msg: "required env variables [CNI_NETNS] missing" })
  })

  const bare = { CNI_CONTAINERID: undefined, CNI_NETNS: undefined, CNI_IFNAME: undefined, CNI_ARGS: undefined }
  const gc = { cniVersion: "1.1.0", name: "lab", "cni.dev/valid-attachments": [] }

  test("#57 GC needs CNI_COMMAND and CNI_PATH only", () => {
    const recorder = new Recorder()
    expect(ask(recorder.plugin, { CNI_COMMAND: "GC", ...bare }, gc).exitCode).toBe(0)
    expect(recorder.verbs).toEqual(["GC"])
  })

  test.each(["GC", "STATUS"])("#58, #59 %s without CNI_PATH is refused", (command) => {
    const { json } = ask(plugin, { CNI_COMMAND: command, ...bare, CNI_PATH: undefined }, gc)
    expect(json).toMatchObject({ code: 4, msg: "required env variables [CNI_PATH] missing" })
  })

  test("#60 VERSION needs no other variable", () => {
    expect(ask(plugin, { CNI_COMMAND: "VERSION", ...bare, CNI_PATH: undefined }).exitCode).toBe(0)
  })
})

describe("values that are refused", () => {
  test("#61 a container ID with other characters, which the details show", () => {
    const { json } = ask(plugin, { CNI_COMMAND: "ADD", CNI_CONTAINERID: "some-%%container-id" })
    expect(json).toMatchObject({ code: 4, details: "some-%%container-id" })
    expect(json.msg).toStartWith("invalid characters in containerID")
    expect(json.msg).toContain("CNI_CONTAINERID")
  })

  test("#62 an interface name of 16 bytes, while 15 pass", () => {
    expect(ask(plugin, { CNI_COMMAND: "ADD", CNI_IFNAME: "a".repeat(15) }).exitCode).toBe(0)
    const { json } = ask(plugin, { CNI_COMMAND: "ADD", CNI_IFNAME: "a".repeat(16) })
    expect(json).toMatchObject({ code: 4, details: "interface name should be less than 16 characters" })
  })

  test("#63 an interface name of 8 letters that take 16 bytes", () => {
    expect(ask(plugin, { CNI_COMMAND: "ADD", CNI_IFNAME: "é".repeat(8) }).json.code).toBe(4)
  })

  test.each([".", ".."])("#64 the interface name %j", (name) => {
    expect(ask(plugin, { CNI_COMMAND: "ADD", CNI_IFNAME: name }).json.code).toBe(4)
  })

  test.each(["a/b", "a:b", "a b", "a\tb", "a\u0085b", "a\u00a0b"])("#65 the interface name %j", (name) => {
    const { json } = ask(plugin, { CNI_COMMAND: "ADD", CNI_IFNAME: name })
    expect(json.code).toBe(4)
    expect(json.msg).toContain("CNI_IFNAME")
  })

  test("#66 an invalid container ID is told before missing variables are", () => {
    const { json } = ask(plugin, {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "%",
      CNI_NETNS: undefined,
      CNI_PATH: undefined,
    })
    expect(json.msg).toStartWith("invalid characters in containerID")
  })

  test.each(["GC", "STATUS"])("#67 not by %s, which has no container, and does not see it", (command) => {
    const recorder = new Recorder()
    const stdin = { cniVersion: "1.1.0", name: "lab", "cni.dev/valid-attachments": [] }
    expect(ask(recorder.plugin, { CNI_COMMAND: command, CNI_CONTAINERID: "../%" }, stdin).exitCode).toBe(0)
    expect(recorder.calls[0]?.containerId).toBe("")
  })
})
