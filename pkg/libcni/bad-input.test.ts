import { describe, expect, test } from "bun:test"
import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { CniError } from "../types/mod.ts"
import * as libcni from "./mod.ts"
import { attachmentOf, type Behaviour, failure, Lab, networkOf, waitsWhileExists } from "./testing/lab.ts"

/** Errors that an operation throws outside its promise: none, since each failure is a `CniError` with a code. */
const unhandled: unknown[] = []
process.on("unhandledRejection", (error) => unhandled.push(error))
process.on("uncaughtException", (error) => unhandled.push(error))

/** Returns the error of an operation. It must be that of a rejected promise, not an exception. */
async function errorOf(operation: () => unknown): Promise<CniError> {
  const promise = operation()
  const error = promise instanceof Promise ? await failure(promise) : promise
  expect(error).toBeInstanceOf(CniError)
  return error as CniError
}

const caught = (operation: () => unknown) => {
  try {
    return operation()
  } catch (error) {
    return error
  }
}

const lists: readonly (readonly [what: string, content: unknown, code: number])[] = [
  ["nothing", "", 6],
  ["a torn file", '{"name": "lab", "plugins": [', 6],
  ["a list", "[]", 6],
  ["a text", '"lab"', 6],
  ["no name", '{"plugins": [{"type": "x"}]}', 7],
  ["a name that is a path", '{"name": "../lab", "plugins": [{"type": "x"}]}', 7],
  ["a name that is a number", '{"name": 7, "plugins": [{"type": "x"}]}', 7],
  ["plugins that are an object", '{"name": "lab", "plugins": {}}', 7],
  ["no plugin", '{"name": "lab", "plugins": []}', 7],
  ["null for a plugin", '{"name": "lab", "plugins": [null]}', 7],
  ["a plugin without a type", '{"name": "lab", "plugins": [{}]}', 7],
  ["a type that is a number", '{"name": "lab", "plugins": [{"type": 1}]}', 7],
  ["capabilities that are a list", '{"name": "lab", "plugins": [{"type": "x", "capabilities": []}]}', 7],
  ["a version that is a number", '{"cniVersion": 1, "name": "lab", "plugins": [{"type": "x"}]}', 7],
  ["a malformed version among others", '{"cniVersions": ["1.x"], "name": "lab", "plugins": [{"type": "x"}]}', 7],
  ["levels without end", `${'{"a":'.repeat(5000)}1${"}".repeat(5000)}`, 6],
  ["undefined", undefined, 6],
  ["a number", 5, 6],
  ["a function", () => {}, 6],
  [
    "an object with itself inside",
    Object.assign(
      { name: "lab" },
      {
        get self() {
          return this
        },
      },
    ),
    6,
  ],
  ["an object with a bigint", { name: "lab", plugins: [{ type: "x", mtu: 1n }] }, 6],
]

test.each(lists)("a network list that is %s is refused with one code", (_, content, code) => {
  expect(caught(() => libcni.parseNetworkList(content as never))).toMatchObject({ name: "CniError", code })
})

/** Wrong values for the arguments of all operations, with the code of the refusal. */
const runtimes: readonly (readonly [what: string, more: unknown])[] = [
  ["undefined", undefined],
  ["null", null],
  ["a text", "runtime"],
  ["a path that is a text", { path: "/opt/cni/bin" }],
  ["a path of numbers", { path: [1] }],
  ["no cache directory", { cacheDir: "" }],
  ["a cache directory that is a number", { cacheDir: 1 }],
  ["an environment that is null", { env: null }],
  ["no stderr", { stderr: undefined }],
  ["a time that is a text", { timeoutMs: "60" }],
  ["a time that is NaN", { timeoutMs: Number.NaN }],
  ["a time below zero", { lockTimeoutMs: -1 }],
  ["a signal that is true", { signal: true }],
  ["an exec that is a function", { exec: () => {} }],
]
const attachments: readonly (readonly [what: string, more: unknown, code?: number])[] = [
  ["undefined", undefined],
  ["no container ID", { containerId: undefined }],
  ["an empty container ID", { containerId: "" }, 3],
  ["a container ID that is a path", { containerId: "../c1" }],
  ["a container ID that is a number", { containerId: 1 }],
  ["an interface that is null", { ifName: null }],
  ["an interface with a slash", { ifName: "eth/0" }],
  ["a namespace that is undefined", { netns: undefined }],
  ["arguments that are an object", { args: {} }],
  ["arguments that are texts", { args: ["A=1"] }],
  ["capabilities that are null", { capabilityArgs: null }],
  ["capabilities that are a list", { capabilityArgs: [] }],
  [
    "capabilities with a cycle",
    {
      capabilityArgs: Object.assign(
        {},
        {
          get self() {
            return this
          },
        },
      ),
    },
  ],
  ["capabilities with a bigint", { capabilityArgs: { mtu: 1n } }],
]
const networks: readonly (readonly [what: string, more: unknown])[] = [
  ["undefined", undefined],
  ["a name", "lab"],
  ["a name that is a number", { name: 1 }],
  ["a version that is undefined", { cniVersion: undefined }],
  ["plugins that are undefined", { plugins: undefined }],
  ["plugins without raw", { plugins: [{ type: "one" }] }],
]

const with_ = (value: object, more: unknown) =>
  typeof more === "object" && more !== null ? { ...value, ...more } : more

const operations: Readonly<Record<string, (runtime: never, network: never, attachment: never) => Promise<unknown>>> = {
  addNetwork: (...given) => libcni.addNetwork(...given),
  delNetwork: (...given) => libcni.delNetwork(...given),
  checkNetwork: (...given) => libcni.checkNetwork(...given),
  checkEachPlugin: (...given) => libcni.checkEachPlugin(...given),
  gcNetwork: (runtime, network) => libcni.gcNetwork(runtime, network, []),
  statusNetwork: (runtime, network) => libcni.statusNetwork(runtime, network),
  validateNetwork: (runtime, network) => libcni.validateNetwork(runtime, network),
  pluginVersions: (runtime) => libcni.pluginVersions(runtime, "one"),
}
const ofAttachment = ["addNetwork", "delNetwork", "checkNetwork", "checkEachPlugin"]

describe.each(Object.keys(operations))("%s refuses, before any plugin runs,", (name) => {
  const run = operations[name] as (...given: unknown[]) => Promise<unknown>
  test.each(runtimes)("a runtime: %s", async (_, more) => {
    using lab = new Lab()
    lab.plugin("one")
    const error = await errorOf(() => run(with_(lab.runtime, more), networkOf([{ type: "one" }]), attachmentOf()))
    expect(error).toMatchObject({ code: 4, message: expect.stringContaining('Cannot use "runtime') })
    expect(lab.calls).toEqual([])
  })
  if (name !== "pluginVersions")
    test.each(networks)("a network: %s", async (_, more) => {
      using lab = new Lab()
      lab.plugin("one")
      const error = await errorOf(() => run(lab.runtime, with_(networkOf([{ type: "one" }]), more), attachmentOf()))
      expect(error).toMatchObject({ code: 7, message: expect.stringContaining('Cannot use "network') })
      expect(lab.calls).toEqual([])
    })
  if (ofAttachment.includes(name))
    test.each(attachments)("an attachment: %s", async (_, more, code = 4) => {
      using lab = new Lab()
      lab.plugin("one")
      const error = await errorOf(() => run(lab.runtime, networkOf([{ type: "one" }]), with_(attachmentOf(), more)))
      expect(error).toMatchObject({ code })
      expect(lab.calls).toEqual([])
      expect(existsSync(lab.runtime.cacheDir)).toBe(false) // no lock was created either
    })
})

test.each<[string, () => unknown, number]>([
  ["loadNetwork of a number", () => libcni.loadNetwork(1 as never, "lab"), 5],
  ["networkNames of undefined", () => libcni.networkNames(undefined as never), 5],
  ["cachedAttachments of undefined", () => libcni.cachedAttachments(undefined as never), 4],
  ["cacheFile without an interface", () => libcni.cacheFile("/", { network: "a", containerId: "b" } as never), 4],
  ["readCache of a number", () => libcni.readCache("/", { network: 1, containerId: "b", ifName: "c" } as never), 4],
])("%s is one error", (_, call, code) => {
  expect(caught(call)).toMatchObject({ name: "CniError", code })
})

test("a network without its bytes is refused by ADD, which would keep them", async () => {
  using lab = new Lab()
  lab.plugin("one")
  for (const bytes of [undefined, "{}"]) {
    const network = { ...networkOf([{ type: "one" }]), bytes } as never
    expect(await errorOf(() => libcni.addNetwork(lab.runtime, network, attachmentOf()))).toMatchObject({ code: 7 })
  }
  expect(lab.calls).toEqual([])
})

test.each([
  ["undefined", undefined],
  ["null", null],
  ["an object", {}],
  ["a text among them", ["c1"]],
  ["one without an interface", [{ containerId: "c1" }]],
  ["one with CNI's own names", [{ containerID: "c1", ifname: "eth0" }]],
  ["an empty name", [{ containerId: "", ifName: "eth0" }]],
  ["a function that returns undefined", () => undefined],
  [
    "a function that throws",
    () => {
      throw new CniError(11, "not now")
    },
  ],
])("gcNetwork deletes nothing for a valid set that is %s", async (_, valid) => {
  using lab = new Lab()
  lab.plugin("one")
  const network = networkOf([{ type: "one" }])
  await libcni.addNetwork(lab.runtime, network, attachmentOf())
  const error = await errorOf(() => libcni.gcNetwork(lab.runtime, network, valid as never))
  expect([4, 11]).toContain(error.code)
  expect(lab.sequence).toEqual(["ADD one"])
  if (typeof valid !== "function")
    expect(caught(() => libcni.staleAttachments(lab.runtime, network, valid as never))).toMatchObject({ code: 4 })
})

/** Misbehaviors of a plugin, each with the code that the runtime gets. */
const plugins: readonly (readonly [what: string, does: Behaviour, code: number])[] = [
  ["prints nothing", { stdout: "" }, 6],
  ["prints garbage", { stdout: "ok!" }, 6],
  ["prints half a result", { stdout: '{"cniVersion": "1.1.0", "ips": [' }, 6],
  ["prints a list", { stdout: "[]" }, 6],
  ["prints two results", { stdout: "{}{}" }, 6],
  ["prints bytes that are no UTF-8", { script: "printf '\\377\\376'", stdout: "" }, 6],
  ["prints addresses that are none", { stdout: '{"cniVersion": "1.1.0", "ips": [{"address": "here"}]}' }, 6],
  ["prints a version that is unknown", { stdout: '{"cniVersion": "9.0.0"}' }, 1],
  ["prints 100 MB", { script: "head -c 104857600 /dev/zero; exec sleep 60" }, 11],
  ["fails without a word", { stdout: "", code: 1 }, 0],
  ["fails with words on stderr", { stdout: "", stderr: "no such thing", code: 1 }, 0],
  ["fails with garbage", { stdout: "oh", code: 1 }, 0],
  ["fails with a code below zero", { stdout: '{"code": -1, "msg": "no"}', code: 1 }, 0],
  ["fails with a code that is a text", { stdout: '{"code": "7", "msg": "no"}', code: 1 }, 0],
  ["fails with its own code", { stdout: '{"code": 117, "msg": "no"}', code: 1 }, 117],
  ["ends by a signal", { script: "kill -SEGV $$" }, 0],
  ["ends by a signal after its result", { script: "printf '{}'; kill -KILL $$", stdout: "" }, 0],
  ["hangs", { script: "exec sleep 60" }, 11],
  ["closes both streams and hangs", { script: "exec >&- 2>&-; exec sleep 60" }, 11],
  ["takes itself away", { script: 'rm -f "$0"', stdout: "" }, 6],
]

test.each(plugins)(
  "a plugin that %s is one error, and a DEL goes on to the other plugins",
  async (what, does, code) => {
    using lab = new Lab()
    const runtime = what.includes("hangs") ? { ...lab.runtime, timeoutMs: 400 } : lab.runtime
    lab.plugin("one")
    lab.plugin("two", { ADD: does, DEL: { ...does, ...(does.stdout === undefined ? {} : { stdout: does.stdout }) } })
    const network = networkOf([{ type: "one" }, { type: "two" }])
    const error = await errorOf(() => libcni.addNetwork(runtime, network, attachmentOf(), { undo: true }))
    expect(error).toMatchObject({ code, message: expect.stringContaining('plugin type="two" failed (add)') })
    expect(lab.sequence.filter((call) => call === "DEL one")).toHaveLength(1)
    expect(libcni.cachedAttachments(lab.cacheDir)).toEqual([])
  },
  900_000,
)

test.each([
  ["does not exist", (file: string) => rmSync(file), 999],
  ["is not executable", (file: string) => chmodSync(file, 0o644), 5],
  ["is a directory", (file: string) => void [rmSync(file), mkdirSync(file)], 999],
  ["is not a program", (file: string) => writeFileSync(file, "\x7fELF no program"), 5],
  ["names an interpreter that does not exist", (file: string) => writeFileSync(file, "#!/nowhere\n"), 5],
])("a plugin that %s is one error before another one runs", async (_, break_, code) => {
  using lab = new Lab()
  lab.plugin("one")
  lab.plugin("two")
  break_(join(lab.binDir, "two"))
  const network = networkOf([{ type: "two" }, { type: "one" }])
  expect((await errorOf(() => libcni.addNetwork(lab.runtime, network, attachmentOf()))).code).toBe(code)
  expect(lab.sequence).toEqual([])
})

test("a caller's stderr that throws changes nothing", async () => {
  using lab = new Lab()
  lab.plugin("one", { ADD: { stdout: "{}", stderr: "said" } })
  const stderr = () => {
    throw new Error("the log is full")
  }
  expect(await libcni.addNetwork({ ...lab.runtime, stderr }, networkOf([{ type: "one" }]), attachmentOf())).toEqual({
    cniVersion: "1.1.0",
  })
})

test.each<[string, unknown, number]>([
  [
    "throws",
    () => {
      throw new Error("no")
    },
    5,
  ],
  ["rejects", () => Promise.reject(new Error("no")), 5],
  ["rejects with undefined", () => Promise.reject(undefined), 5],
  ["rejects with a code", () => Promise.reject(new CniError(50, "not there")), 50],
  ["returns undefined", () => undefined, 5],
  ["returns a text", () => "{}", 5],
  ["returns numbers", () => ({ stdout: 1, stderr: 2, cause: 3 }), 5],
  ["returns garbage", () => ({ stdout: "ok", stderr: "", cause: undefined }), 6],
  ["says that it failed", () => ({ stdout: '{"code": 7, "msg": "no"}', stderr: "", cause: "exit status 1" }), 7],
])("an exec whose run %s is one error", async (_, run, code) => {
  using lab = new Lab()
  const exec = { findPlugin: () => "/somewhere", run: run as never }
  const runtime = { ...lab.runtime, exec }
  const network = networkOf([{ type: "one" }])
  expect((await errorOf(() => libcni.addNetwork(runtime, network, attachmentOf()))).code).toBe(code)
  const lost = {
    ...lab.runtime,
    exec: {
      findPlugin: () => {
        throw new Error("no")
      },
    },
  }
  expect((await errorOf(() => libcni.addNetwork(lost, network, attachmentOf()))).code).toBe(999)
})

describe("a signal ends every wait with code 11:", () => {
  const reason = new Error("the pod was deleted")

  test.each(Object.keys(operations))("%s that has not begun", async (name) => {
    using lab = new Lab()
    lab.plugin("one")
    const run = operations[name] as (...given: unknown[]) => Promise<unknown>
    const network = networkOf([{ type: "one" }])
    if (name.startsWith("check")) await libcni.addNetwork(lab.runtime, network, attachmentOf())
    const before = lab.calls.length
    const runtime = { ...lab.runtime, signal: AbortSignal.abort(reason) }
    const error = await errorOf(() => run(runtime, network, attachmentOf()))
    expect(error).toMatchObject({ code: 11 })
    expect(String(error)).toContain("the pod was deleted")
    expect(lab.calls).toHaveLength(before)
  })

  test.each(["addNetwork", "delNetwork", "gcNetwork", "statusNetwork", "pluginVersions"])(
    "%s whose plugin runs",
    async (name) => {
      using lab = new Lab()
      const held = join(lab.root, "held")
      writeFileSync(held, "")
      const behaviour = { script: waitsWhileExists(held) }
      lab.plugin("one", { ADD: behaviour, DEL: behaviour, GC: behaviour, STATUS: behaviour, VERSION: behaviour })
      const stop = new AbortController()
      const run = operations[name] as (...given: unknown[]) => Promise<unknown>
      const ended = errorOf(() =>
        run({ ...lab.runtime, signal: stop.signal }, networkOf([{ type: "one" }]), attachmentOf()),
      )
      while (lab.calls.length === 0) await Bun.sleep(1)
      stop.abort(reason)
      expect((await ended).code).toBe(11)
    },
  )

  test("a plugin of the caller's own exec", async () => {
    using lab = new Lab()
    const stop = new AbortController()
    const exec = {
      findPlugin: () => "/somewhere",
      run: ({ signal }: libcni.Execution) =>
        new Promise<libcni.Outcome>((_, reject) => {
          signal?.addEventListener("abort", () => reject(new Error("stopped")))
          stop.abort(reason)
        }),
    }
    const runtime = { ...lab.runtime, exec, signal: stop.signal }
    const error = await errorOf(() => libcni.addNetwork(runtime, networkOf([{ type: "one" }]), attachmentOf()))
    expect(error).toMatchObject({ code: 11, details: "the pod was deleted" })
  })
})

test("nothing was thrown that no caller catches", () => {
  expect(unhandled).toEqual([])
})
