import { describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { ask, Recorder } from "./plugin.fixture.ts"

/** Returns the refusal of a plugin that supports `versions`. The error must come before the plugin is called. */
function refused(command: string, cniVersion: string | undefined, versions?: string[]) {
  const recorder = new Recorder(versions ? { versions } : {})
  const stdin = { ...(cniVersion === undefined ? {} : { cniVersion }), name: "lab", "cni.dev/attachments": [] }
  const { json } = ask(recorder.plugin, { CNI_COMMAND: command }, stdin)
  expect(recorder.calls).toBeEmpty()
  return json
}

describe("versions", () => {
  test("#72 a configuration without cniVersion is 0.1.0", () => {
    const recorder = new Recorder({ versions: ["0.1.0"] })
    expect(ask(recorder.plugin, { CNI_COMMAND: "ADD" }, { name: "lab" }).exitCode).toBe(0)
    expect(recorder.calls[0]?.network.cniVersion).toBe("0.1.0")
  })

  test("#73 and is refused by a plugin that does not support that", () => {
    expect(refused("ADD", undefined, ["4.3.2"])).toMatchObject({
      code: 1,
      msg: "incompatible CNI versions",
      details: 'config is "0.1.0", plugin supports ["4.3.2"]',
    })
  })

  test("#6, #74 a version that is not in the list is refused", () => {
    expect(refused("ADD", "0.999.0")).toMatchObject({ code: 1, msg: "incompatible CNI versions" })
    expect(refused("DEL", "1.1")).toMatchObject({ code: 1, details: expect.stringContaining('config is "1.1"') })
  })

  test.each(["ADD", "DEL"])("#75 %s with a text for a version is a mismatch", (command) => {
    expect(refused(command, "one.two")).toMatchObject({ code: 1, msg: "incompatible CNI versions" })
  })

  test.each(["CHECK", "GC", "STATUS"])("#76 %s with a text for a version cannot be decoded", (command) => {
    expect(refused(command, "one.two").code).toBe(6)
  })

  test.each(["CHECK", "GC", "STATUS"])("#77 %s of a plugin whose own list cannot be decoded says so", (command) => {
    expect(refused(command, "1.1.0", ["zero", "1.1.0"]).code).toBe(6)
  })

  test("#77 but not when a sufficient version comes first", () => {
    const recorder = new Recorder({ versions: ["1.1.0", "zero"] })
    expect(ask(recorder.plugin, { CNI_COMMAND: "STATUS" }).exitCode).toBe(0)
  })

  test.each([
    ["#78", "CHECK", "0.3.0"],
    ["#80", "GC", "1.0.0"],
    ["#82", "STATUS", "1.0.0"],
  ])("%s %s does not exist in %s", (_number, command, version) => {
    expect(refused(command, version)).toMatchObject({
      code: 1,
      msg: `config version does not allow ${command}`,
      details: `${command} exists since version ${command === "CHECK" ? "0.4.0" : "1.1.0"}, and the configuration's cniVersion is "${version}"`,
    })
  })

  test.each([
    ["#79", "CHECK", "0.4.0", "0.3.0"],
    ["#81", "GC", "1.1.0", "1.0.0"],
    ["#83", "GC", "9.9.9", "1.1.0"],
    ["#83", "STATUS", "9.9.9", "1.1.0"],
  ])("%s %s of configuration %s is too new for a plugin up to %s", (_number, command, config, plugin) => {
    expect(refused(command, config, ["0.1.0", plugin])).toMatchObject({
      code: 1,
      msg: `plugin version does not allow ${command}`,
      details: `config is "${config}", plugin supports ["0.1.0" "${plugin}"]`,
    })
  })

  test("#83 ADD of a version above all is incompatible", () => {
    expect(refused("ADD", "9.9.9")).toMatchObject({ code: 1, msg: "incompatible CNI versions" })
  })
})

describe("the plugin's own namespace", () => {
  const own = "/proc/thread-self/ns/net"

  test.each(["ADD", "DEL"])("#95 %s on it is refused before the plugin is called", (command) => {
    const recorder = new Recorder()
    const { json } = ask(recorder.plugin, { CNI_COMMAND: command, CNI_NETNS: own })
    expect(json).toMatchObject({
      code: 8,
      msg: "plugin's netns and netns from CNI_NETNS should not be the same",
      details: `CNI_NETNS "${own}" is the namespace that this plugin runs in; nothing was changed`,
    })
    expect(recorder.calls).toBeEmpty()
  })

  test.each([["proc/1/ns/net.kept"], ["proc/1a/ns/net"], ["proc/1/task/a/ns/net"], ["ns/net"]])(
    "#95 DEL on it by a path that is not a process' is refused, as %s",
    (name) => {
      const directory = mkdtempSync(join(tmpdir(), "cni-skel-test-"))
      try {
        const path = join(directory, name)
        mkdirSync(dirname(path), { recursive: true })
        symlinkSync(own, path)
        expect(ask(new Recorder().plugin, { CNI_COMMAND: "DEL", CNI_NETNS: path }).json.code).toBe(8)
      } finally {
        rmSync(directory, { recursive: true })
      }
    },
  )

  test.each([`/proc/${process.pid}/ns/net`, `/proc/${process.pid}/task/${process.pid}/ns/net`])(
    "#95 DEL by the number of a process that is the host's by now, %s, goes on without a namespace, and ADD is refused",
    (path) => {
      const recorder = new Recorder()
      expect(ask(recorder.plugin, { CNI_COMMAND: "DEL", CNI_NETNS: path })).toMatchObject({
        exitCode: 0,
        stdout: "",
        log: [`recorder: "${path}" is now the host's namespace: the container's no longer exists`],
      })
      expect(recorder.calls).toMatchObject([{ verb: "DEL", netns: "" }])
      expect(ask(recorder.plugin, { CNI_COMMAND: "ADD", CNI_NETNS: path }).json.code).toBe(8)
      expect(recorder.calls).toHaveLength(1)
    },
  )

  test.each(["1", "true", "TRUE"])("#96 CNI_NETNS_OVERRIDE=%s allows it", (override) => {
    const { plugin } = new Recorder()
    const env = { CNI_COMMAND: "ADD", CNI_NETNS: own, CNI_NETNS_OVERRIDE: override }
    expect(ask(plugin, env).exitCode).toBe(0)
  })

  test.each(["0", "yes", ""])("#96 CNI_NETNS_OVERRIDE=%j does not", (override) => {
    const { plugin } = new Recorder()
    const env = { CNI_COMMAND: "ADD", CNI_NETNS: own, CNI_NETNS_OVERRIDE: override }
    expect(ask(plugin, env).json.code).toBe(8)
  })

  test.each(["ADD", "DEL"])(
    "#97 a namespace that does not exist is not ours, and %s goes on to the plugin",
    (command) => {
      const recorder = new Recorder()
      expect(ask(recorder.plugin, { CNI_COMMAND: command, CNI_NETNS: "/run/netns/not-there" }).exitCode).toBe(0)
      expect(recorder.verbs).toEqual([command])
    },
  )

  test("CHECK changes nothing and is not held up", () => {
    const { plugin } = new Recorder()
    expect(ask(plugin, { CNI_COMMAND: "CHECK", CNI_NETNS: own }).exitCode).toBe(0)
  })
})

describe("the valid attachments of GC", () => {
  const gc = { CNI_COMMAND: "GC" }
  const network = { cniVersion: "1.1.0", name: "lab" }

  test("#31 a GC without them succeeds, deletes nothing and says so", () => {
    const recorder = new Recorder()
    const { exitCode, stdout, log } = ask(recorder.plugin, gc, network)
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "" })
    expect(log).toEqual([
      'recorder: GC of network "lab" has no "cni.dev/valid-attachments": the valid attachments are unknown, and nothing was deleted',
    ])
    expect(recorder.calls).toBeEmpty()
  })

  test.each(["cni.dev/valid-attachments", "cni.dev/attachments"])("they are read from %s", (key) => {
    const recorder = new Recorder()
    const valid = [{ containerID: "c1", ifname: "eth0" }]
    expect(ask(recorder.plugin, gc, { ...network, [key]: valid }).stdout).toBe("")
    expect(recorder.calls[0]?.network.attachments).toEqual(valid)
  })

  test.each([{ list: [] }, { list: null }])("#31 the list of $list says that none is valid", ({ list }) => {
    const recorder = new Recorder()
    expect(ask(recorder.plugin, gc, { ...network, "cni.dev/attachments": list }).exitCode).toBe(0)
    expect(recorder.calls[0]?.network.attachments).toEqual([])
  })
})
