import { describe, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { version } from "../../package.json"
import { PluginDirectory } from "../invoke/directory.fixture.ts"
import type { Builtin } from "../invoke/mod.ts"
import { SyscallError } from "../libc/mod.ts"
import { CniError } from "../types/mod.ts"
import { ask, attachment, oneAddress, Recorder } from "./plugin.fixture.ts"
import { type Call, definePlugin } from "./plugin.ts"
import { serve } from "./serve.ts"

const bytes = (text: string) => () => new TextEncoder().encode(text)
const unreadable = () => {
  throw new Error("Input/output error (EIO)")
}
const failing = (error: unknown) =>
  new Recorder({
    behave: () => {
      throw error
    },
  }).plugin

describe("what a verb gets", () => {
  test.each(["ADD", "DEL", "CHECK"])(
    "#50 %s gets the variables and the configuration, and nothing else is called",
    (verb) => {
      const recorder = new Recorder()
      const stdin = ' { "name": "lab", "cniVersion": "1.0.0", "big": 12345678901234567890 }\n'
      ask(recorder.plugin, { CNI_COMMAND: verb }, stdin)
      expect(recorder.verbs).toEqual([verb])
      expect(recorder.calls[0]).toMatchObject({
        containerId: attachment.CNI_CONTAINERID,
        netns: attachment.CNI_NETNS,
        ifName: attachment.CNI_IFNAME,
        args: attachment.CNI_ARGS,
        path: attachment.CNI_PATH,
        network: { name: "lab", cniVersion: "1.0.0" },
      })
      expect(recorder.calls[0]?.stdin).toEqual(bytes(stdin)())
    },
  )

  test("the plugin's own reading of the configuration comes first, and its error is the answer", () => {
    const { plugin } = new Recorder()
    const picky = definePlugin({
      ...plugin,
      config() {
        throw new CniError(7, 'Cannot use "vlan" 5000: expected 0 to 4094')
      },
    })
    expect(ask(picky, { CNI_COMMAND: "ADD" }).json).toMatchObject({ code: 7 })
  })

  test("a log line tells which plugin it is from", () => {
    const { plugin } = new Recorder({ behave: (call) => call.log("hello") })
    expect(ask(plugin, { CNI_COMMAND: "DEL" }).log).toEqual(["recorder: hello"])
  })

  test.each([
    ["CHECK", "0.3.1"],
    ["GC", "1.0.0"],
    ["STATUS", "1.0.0"],
  ])(
    "#84 %s of a plugin with nothing to do for it succeeds in silence, once versions and request are checked",
    (verb, old) => {
      const idle = definePlugin({ ...new Recorder().plugin, check() {}, gc() {}, status() {} })
      const network = { name: "lab", "cni.dev/attachments": [] }
      const env = { CNI_COMMAND: verb }
      expect(ask(idle, env, { ...network, cniVersion: "1.1.0" })).toMatchObject({ stdout: "", exitCode: 0, log: [] })
      expect(ask(idle, env, { ...network, cniVersion: old }).json.msg).toBe(`config version does not allow ${verb}`)
      const { gc: _, ...withoutGc } = idle
      // @ts-expect-error: a missing verb is a type error here; upstream would do nothing for it
      definePlugin(withoutGc)
    },
  )
})

describe("the answer", () => {
  test("#1, #4, #7 to ADD is one result in the layout and version of the configuration, and exit code 0", () => {
    const { plugin } = new Recorder()
    const { stdout, exitCode } = ask(plugin, { CNI_COMMAND: "ADD" }, { cniVersion: "0.4.0", name: "lab" })
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      cniVersion: "0.4.0",
      ips: [{ version: "4", address: "192.0.2.7/24" }],
    })
  })

  test("#5 to ADD without a cniVersion is in the layout of 0.1.0", () => {
    const { plugin } = new Recorder()
    const { json } = ask(plugin, { CNI_COMMAND: "ADD" }, { name: "lab" })
    expect(json).toMatchObject({ cniVersion: "0.1.0", ip4: { ip: "192.0.2.7/24" } })
  })

  test("a result that the version cannot hold fails inside ADD, where it can still be undone", () => {
    const seen: unknown[] = []
    const { plugin } = new Recorder()
    const honest = definePlugin({
      ...plugin,
      add(call) {
        try {
          return call.answer({ ...oneAddress, ips: [] })
        } catch (error) {
          seen.push(error)
          throw error
        }
      },
    })
    expect(ask(honest, { CNI_COMMAND: "ADD" }, { cniVersion: "0.2.0", name: "lab" }).json.code).toBe(1)
    expect(seen).toHaveLength(1)
  })

  test.each(["DEL", "CHECK", "STATUS", "GC"])("#30, #34 to %s is empty", (command) => {
    const { plugin } = new Recorder()
    const stdin = { cniVersion: "1.1.0", name: "lab", "cni.dev/attachments": [] }
    expect(ask(plugin, { CNI_COMMAND: command }, stdin)).toMatchObject({ stdout: "", exitCode: 0 })
  })

  test("#39, #85 to VERSION is one line, and stdin is left alone", () => {
    const { plugin } = new Recorder({ versions: ["0.4.0", "1.1.0"] })
    expect(ask(plugin, { CNI_COMMAND: "VERSION" }, unreadable)).toMatchObject({
      stdout: '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.1.0"]}\n',
      exitCode: 0,
    })
  })

  test("#89 to no command is the name, its version and the supported versions, for a human", () => {
    const { plugin } = new Recorder({ versions: ["0.4.0", "1.1.0"] })
    const { log, ...reply } = ask(plugin, { CNI_COMMAND: "" }, unreadable)
    expect(reply).toMatchObject({ stdout: "", exitCode: 0 })
    expect(log).toEqual([
      "CNI recorder plugin v1.9.1",
      `cni-plugins v${version}, in place of the reference plugins v1.9.1`,
      "CNI protocol versions supported: 0.4.0, 1.1.0",
    ])
    expect(ask(plugin, { CNI_COMMAND: undefined }, unreadable).log).toEqual(log)
  })
})

describe("stdin", () => {
  const { plugin } = new Recorder()
  const add = { CNI_COMMAND: "ADD" }

  test.each(["", "{", "[]", '"text"', '{"name":"lab"} {}'])(
    "#68 that is no JSON object, like %j, is code 6",
    (text) => {
      const { json } = ask(plugin, add, text)
      expect(json.code).toBe(6)
      expect(json.msg).toStartWith("error unmarshall network config: ")
    },
  )

  test("#69 that cannot be read is code 5 with the cause, and nothing is called", () => {
    const recorder = new Recorder()
    const { json } = ask(recorder.plugin, add, unreadable)
    expect(json).toMatchObject({ code: 5, msg: "error reading from stdin: Input/output error (EIO)" })
    expect(recorder.calls).toBeEmpty()
  })

  test.each(["{}", "null", '{"name":""}'])("#70 without a name, like %j, is code 7", (text) => {
    const { json } = ask(plugin, add, text)
    expect(json.code).toBe(7)
    expect(json.msg).toStartWith("missing network name")
  })

  test("#71 with a name of other characters is code 7", () => {
    expect(ask(plugin, add, { name: "te%%st" }).json).toMatchObject({ code: 7, details: "te%%st" })
  })

  test("with a cniVersion that is not a string is code 6", () => {
    expect(ask(plugin, add, { name: "lab", cniVersion: 1 }).json.code).toBe(6)
  })

  test.each([{ mac: true, ips: false }, "text", null])(
    "#49 may still hold capabilities, like %j, which are ignored",
    (capabilities) => {
      const network = { name: "lab", cniVersion: "1.1.0" }
      const recorder = new Recorder()
      for (const keys of [{}, { capabilities }]) ask(recorder.plugin, add, { ...network, ...keys })
      expect(recorder.verbs).toEqual(["ADD", "ADD"])
      expect(recorder.calls[1]?.network).toEqual(recorder.calls[0]?.network as never)
    },
  )
})

describe("prevResult", () => {
  const network = { name: "lab", cniVersion: "1.1.0" }
  const ips = [{ address: "192.0.2.9/24" }]

  test("#12 of another layout is refused by ADD and CHECK", () => {
    const { plugin } = new Recorder()
    const stdin = { ...network, prevResult: { cniVersion: "0.2.0", ip4: { ip: "192.0.2.9/24" } } }
    for (const command of ["ADD", "CHECK", "STATUS"])
      expect(ask(plugin, { CNI_COMMAND: command }, stdin).json.code).toBe(6)
  })

  test("#12 of another layout is not used by DEL either, which says so and goes on without", () => {
    const recorder = new Recorder()
    const stdin = { ...network, prevResult: { cniVersion: "0.2.0" } }
    const { exitCode, log } = ask(recorder.plugin, { CNI_COMMAND: "DEL" }, stdin)
    expect(exitCode).toBe(0)
    expect(recorder.calls[0]?.network.prevResult).toBeUndefined()
    expect(log).toEqual([
      expect.stringMatching(/^recorder: DEL continues without a part of the configuration: Cannot use "prevResult"; /),
    ])
  })

  test("#13 without a version is of the configuration's", () => {
    const recorder = new Recorder()
    ask(recorder.plugin, { CNI_COMMAND: "ADD" }, { ...network, prevResult: { ips } })
    expect(recorder.calls[0]?.network.prevResult?.ips).toEqual(ips)
  })

  test.each([{}, { prevResult: null }])("#14 is absent in %j", (keys) => {
    const recorder = new Recorder()
    expect(ask(recorder.plugin, { CNI_COMMAND: "ADD" }, { ...network, ...keys }).exitCode).toBe(0)
    expect(recorder.calls[0]?.network.prevResult).toBeUndefined()
  })
})

describe("commands that there are not", () => {
  test("#86 NOPE is refused and nothing is called", () => {
    const recorder = new Recorder()
    expect(ask(recorder.plugin, { CNI_COMMAND: "NOPE" }).json).toMatchObject({
      code: 4,
      msg: "unknown CNI_COMMAND: NOPE",
      details: "expected one of ADD, DEL, CHECK, GC, STATUS, VERSION",
    })
    expect(recorder.calls).toBeEmpty()
  })

  test("#87 NOPE with an empty stdin is an error about stdin", () => {
    expect(ask(new Recorder().plugin, { CNI_COMMAND: "NOPE" }, "").json.code).toBe(6)
  })

  test.each(["add", "toString", "__proto__", " ADD"])("#88 %j is not one either", (command) => {
    expect(ask(new Recorder().plugin, { CNI_COMMAND: command }).json.msg).toBe(`unknown CNI_COMMAND: ${command}`)
  })
})

describe("errors of the plugin", () => {
  const network = { cniVersion: "0.4.0", name: "lab" }
  const add = { CNI_COMMAND: "ADD" }

  test("#2, #91, #98 a CniError is printed as it is, with the configuration's version, indented, without a newline", () => {
    const { stdout } = ask(failing(new CniError(1234, "potato", { details: "mashed" })), add, network)
    expect(stdout).toBe(
      '{\n    "cniVersion": "0.4.0",\n    "code": 1234,\n    "msg": "potato",\n    "details": "mashed"\n}',
    )
  })

  test("#92 another error is code 999 with its text", () => {
    expect(ask(failing(new Error("potato")), add, network).json).toEqual({
      cniVersion: "0.4.0",
      code: 999,
      msg: "potato",
      details: expect.stringMatching(/^at .*pkg\/skel\/serve\.test\.ts:\d+/), // the origin of the error
    })
  })

  test.each(["ADD", "DEL", "CHECK"])("#1, #93 %s exits with 1", (command) => {
    expect(ask(failing(new Error("potato")), { CNI_COMMAND: command }, network).exitCode).toBe(1)
  })

  test("#94 without details there is no such key", () => {
    expect(ask(failing(new CniError(100, "potato")), add, network).json).not.toHaveProperty("details")
  })

  test("#98 an error before the configuration is known has the newest version", () => {
    expect(ask(failing(0), add, "").json.cniVersion).toBe("1.1.0")
    expect(ask(failing(0), add, { name: "%", cniVersion: "0.3.1" }).json.cniVersion).toBe("0.3.1")
  })

  test.each([
    ["undefined", undefined],
    ["null", null],
    ["an empty text", ""],
    ["a symbol", Symbol("s")],
    ["an object that cannot be a text", Object.create(null)],
    ["an error without a text", new Error("")],
    ["an error with a code below 0", new CniError(-1, "")],
  ])("%s still gives a code and a text", (_name, thrown) => {
    const { json, exitCode } = ask(failing(thrown), add, network)
    expect(exitCode).toBe(1)
    expect(json.code).toBe(999)
    expect(json.msg).toBeString()
    expect(json.msg).not.toBeEmpty()
  })

  test.each(["ADD", "DEL"])("a promise from %s is an error: it would not be waited for", (command) => {
    const { plugin } = new Recorder()
    const late = async () => {}
    const asynchronous = { ...plugin, add: late as unknown as typeof plugin.add, del: late }
    const { json } = ask(asynchronous, { CNI_COMMAND: command })
    expect(json).toMatchObject({ code: 999, msg: `Cannot answer ${command}: plugin "recorder" returned a promise` })
  })

  test("a result that call.answer did not make is one", () => {
    const { plugin } = new Recorder()
    const forging = { ...plugin, add: (_call: Call) => ({}) as ReturnType<typeof plugin.add> }
    expect(ask(forging, add).json.code).toBe(999)
  })

  test("a bug is logged with where it is, and what is thrown on purpose, or is not an error, is not", () => {
    const said = (error: unknown) => ask(failing(error), { CNI_COMMAND: "DEL" }, network).log
    expect(said(new TypeError("potato"))).toEqual([
      expect.stringMatching(/^recorder: TypeError: potato\n {4}at (.* )?pkg\/skel\/serve\.test\.ts:\d+(\n {4}at .*)*$/),
    ])
    for (const meant of [new CniError(7, "potato"), new SyscallError("open", 24), "potato"])
      expect(said(meant)).toEqual([])
  })

  test("of a bug's stack twenty frames are logged", () => {
    const frames = Array.from({ length: 21 }, (_, at) => `    at f${at} (${join(import.meta.dir, "serve.ts")}:${at}:1)`)
    const deep = Object.assign(new Error("potato"), { stack: ["Error: potato", ...frames].join("\n") })
    expect(ask(failing(deep), { CNI_COMMAND: "DEL" }, network).log[0]?.split("\n    at ").slice(1)).toEqual(
      Array.from({ length: 20 }, (_, at) => `f${at} pkg/skel/serve.ts:${at}`),
    )
  })

  test("stdin that throws what is not an error is told by it", () => {
    const thrower = () => {
      throw "no stdin"
    }
    expect(ask(new Recorder().plugin, add, thrower).json).toMatchObject({ msg: "error reading from stdin: no stdin" })
  })
})

describe("a delegate", () => {
  const stdin = bytes('{"cniVersion":"1.1.0","name":"lab"}')

  /** Returns the call that the delegate "exe" in this process receives. */
  function callOf(env: Record<string, string>) {
    const seen: unknown[] = []
    const exe: Builtin = (call) => {
      seen.push(call)
      return { stdout: "", exitCode: 0 }
    }
    const { plugin } = new Recorder({ behave: (call) => call.delegate.del("exe") })
    const reply = serve(plugin, { env, stdin, log() {}, builtinsOn: () => ({ exe }) })
    expect(reply).toEqual({ stdout: "", exitCode: 0 })
    return seen
  }

  test.each([
    [attachment.CNI_NETNS, attachment.CNI_NETNS],
    [`/proc/${process.pid}/ns/net`, ""],
  ])("gets the configuration, and of the namespace %j, %j", (given, netns) => {
    using directory = new PluginDirectory()
    directory.ownPlugin("exe", "exe")
    const env = { ...attachment, CNI_COMMAND: "DEL", CNI_PATH: directory.path }
    const seen = callOf({ ...env, CNI_NETNS: given })
    expect(seen).toEqual([{ env: { ...env, CNI_NETNS: netns }, stdin: stdin() }])
  })

  test("is another process unless one is in this process", () => {
    const { plugin } = new Recorder({ behave: (call) => call.delegate.del("exe") })
    const call = { env: { ...attachment, CNI_COMMAND: "DEL", CNI_PATH: "/not/there" }, stdin, log() {} }
    expect(JSON.parse(serve(plugin, call).stdout)).toMatchObject({
      msg: 'failed to find plugin "exe" in path [/not/there]',
    })
  })
})

describe("a call", () => {
  test("leaves no descriptor open, refused or run", () => {
    const open = () => readdirSync("/proc/self/fd").length
    const before = open()
    const env = { CNI_COMMAND: "ADD", CNI_NETNS: "/proc/thread-self/ns/net" }
    const config = '{"cniVersion":"1.1.0","name":"lab"}'
    const exitCode = (config: string, more: object = {}) =>
      ask(new Recorder().plugin, { ...env, ...more }, config).exitCode
    expect(exitCode(config)).toBe(1)
    expect(exitCode(config, { CNI_NETNS_OVERRIDE: "1" })).toBe(0)
    expect(exitCode(config.replace("1.1.0", "9.9.9"))).toBe(1)
    expect(open()).toBe(before)
  })
})
