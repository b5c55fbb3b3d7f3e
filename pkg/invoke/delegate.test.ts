import { describe, expect, test } from "bun:test"
import { readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { refusalOf } from "../types/testing.ts"
import { delegateTo } from "./delegate.ts"
import { PluginDirectory } from "./directory.fixture.ts"

const config = '{"cniVersion":"0.4.0","name":"lab","ipam":{"type":"pool"},"prevResult":{"ips":[]}}'
const oneAddress = '{"cniVersion":"0.4.0","ips":[{"version":"4","address":"192.0.2.7/24"}]}'

/**
 * A directory with the plugin "pool", which writes its commands to the file "calls" and then runs `body`. The
 * delegate's environment is that of an attachment, with the CNI_COMMAND of its caller.
 */
class Pool extends PluginDirectory {
  readonly env = {
    PATH: process.env.PATH,
    CNI_COMMAND: "OTHER",
    CNI_CONTAINERID: "c1",
    CNI_NETNS: "/run/netns/c1",
    CNI_IFNAME: "eth0",
    CNI_ARGS: "A=b",
    CNI_PATH: this.path,
  }
  readonly log: string[] = []
  readonly delegate = delegateTo({
    env: this.env,
    stdin: new TextEncoder().encode(config),
    configVersion: "0.4.0",
    builtins: {},
    log: (text) => this.log.push(text),
    self: "bridge",
  })

  constructor(body: string) {
    super()
    this.script("pool", `echo $CNI_COMMAND >> ${this.path}/calls\n${body}`)
  }

  get calls(): string[] {
    return this.read("calls").trim().split("\n")
  }

  read(name: string): string {
    return readFileSync(join(this.path, name), "utf8")
  }
}

describe("a delegate", () => {
  test.each(["check", "del", "status", "gc"] as const)("#148, #147 runs %s, for each command of the caller", (verb) => {
    using pool = new Pool("echo this is ignored")
    pool.delegate[verb]("pool")
    expect(pool.calls).toEqual([verb.toUpperCase()])
  })

  test("#148 runs ADD, whose result is answered", () => {
    using pool = new Pool(`echo '${oneAddress}'`)
    expect(pool.delegate.add("pool")).toMatchObject({ ips: [{ address: "192.0.2.7/24" }] })
    expect(pool.calls).toEqual(["ADD"])
  })

  test("is never the caller itself, which would call itself without end; with a configuration of its own it may be", () => {
    using pool = new Pool("")
    pool.script("bridge", `echo bridge >> ${pool.path}/calls`)
    for (const verb of ["add", "check", "del", "status", "gc"] as const)
      expect(() => pool.delegate[verb]("bridge")).toThrow(
        'Cannot delegate to "bridge": a plugin cannot delegate to itself',
      )
    pool.delegate.del("bridge", new Uint8Array())
    expect(pool.calls).toEqual(["bridge"])
  })

  test("#149 leaves the environment of the caller as it is", () => {
    using pool = new Pool("")
    const before = JSON.stringify([pool.env, process.env])
    pool.delegate.del("pool")
    expect(JSON.stringify([pool.env, process.env])).toBe(before)
  })

  test("#150, #151 gets all other variables and the complete configuration as they are", () => {
    using pool = new Pool('cat > "$CNI_PATH/stdin"; env | grep "^CNI_" | sort > "$CNI_PATH/env"')
    pool.delegate.gc("pool")
    expect(pool.read("stdin")).toBe(config)
    const expected = Object.entries({ ...pool.env, CNI_COMMAND: "GC" }).filter(([name]) => name.startsWith("CNI_"))
    const written = expected.map(([name, value]) => `${name}=${value}\n`)
    expect(pool.read("env")).toBe(written.sort().join(""))
  })

  test("may get a configuration that its caller wrote", () => {
    using pool = new Pool('cat > "$CNI_PATH/stdin"')
    pool.delegate.del("pool", new TextEncoder().encode("{}"))
    expect(pool.read("stdin")).toBe("{}")
  })

  test("#133 has its stderr passed on", () => {
    using pool = new Pool("echo a reason >&2")
    pool.delegate.del("pool")
    expect(pool.log).toEqual(["a reason"])
  })

  test.each(["add", "check", "del", "gc"] as const)("#152 of %s that is not in CNI_PATH is an error", (verb) => {
    using pool = new Pool("")
    expect(() => pool.delegate[verb]("other")).toThrow(`failed to find plugin "other" in path [${pool.path}]`)
  })

  test("that does not exist, or is the caller itself, is named with the key that asks for it", () => {
    using pool = new Pool("")
    const details = (ask: () => void) => refusalOf(ask).details
    expect(details(() => pool.delegate.add("other"))).toContain('"ipam.type" names it')
    expect(details(() => pool.delegate.add("other", new Uint8Array()))).toContain('"delegate.type" names it')
    expect(details(() => pool.delegate.add("a/b"))).toContain('"ipam.type"')
    expect(details(() => pool.delegate.add(""))).toBe('"ipam.type" is empty')
    expect(details(() => pool.delegate.del("bridge"))).toBe('"ipam.type" names it')
  })

  test("is searched nowhere without a CNI_PATH", () => {
    const delegate = delegateTo({ env: {}, stdin: new Uint8Array(), configVersion: "", builtins: {}, log() {} })
    expect(() => delegate.del("pool")).toThrow(
      expect.objectContaining({
        code: 4,
        details: 'CNI_PATH holds no absolute directory to search for plugin "pool"',
      }),
    )
  })

  test("#152 that is not in CNI_PATH makes STATUS say that ADD cannot be served", () => {
    using pool = new Pool("")
    expect(() => pool.delegate.status("other")).toThrow(
      expect.objectContaining({
        code: 50,
        message: `failed to find plugin "other" in path [${pool.path}]`,
        details: '"ipam.type" names it: install the plugin there, or add its directory to CNI_PATH',
      }),
    )
    expect(() => pool.delegate.status("a/b")).toThrow(expect.objectContaining({ code: 7 }))
  })

  test("#153 that fails on ADD is run with DEL before its error is returned", () => {
    using pool = new Pool(`[ $CNI_COMMAND = DEL ] || { echo '{"code":11,"msg":"pool is full"}'; exit 1; }`)
    expect(() => pool.delegate.add("pool")).toThrow(expect.objectContaining({ code: 11, message: "pool is full" }))
    expect(pool.calls).toEqual(["ADD", "DEL"])
    expect(pool.log).toBeEmpty()
  })

  test("#153 that fails on that DEL too is logged, and its first error returned", () => {
    using pool = new Pool(`echo "{\\"code\\":11,\\"msg\\":\\"$CNI_COMMAND failed\\"}"; exit 1`)
    expect(() => pool.delegate.add("pool")).toThrow("ADD failed")
    expect(pool.log).toEqual(['Cannot undo ADD of plugin "pool": DEL failed'])
  })

  test.each(["check", "del", "status", "gc"] as const)("#154, #155, #156 has its error of %s returned", (verb) => {
    using pool = new Pool(`echo '{"code":11,"msg":"not now"}'; exit 1`)
    expect(() => pool.delegate[verb]("pool")).toThrow(expect.objectContaining({ code: 11, message: "not now" }))
  })
})

describe("the result of a delegate", () => {
  const resultOf = (text: string, configVersion: string) => {
    using pool = new Pool(`printf '%s' '${text}'`)
    return delegateTo({ env: pool.env, stdin: new Uint8Array(), configVersion, builtins: {}, log() {} }).add("pool")
  }
  const empty = { interfaces: [], ips: [], routes: [], dns: {} }

  test.each(["", '"cniVersion":"",', '"cniVersion":7,'])(
    "#143 with %j for a version has the configuration's",
    (version) => {
      expect(resultOf(`{${version}"ips":[{"address":"192.0.2.7/24"}]}`, "1.1.0").ips).toHaveLength(1)
      expect(resultOf(`{${version}"ip4":{"ip":"192.0.2.7/24"}}`, "0.2.0").ips).toHaveLength(1)
    },
  )

  test("#144 is of 0.1.0 when the configuration has no version either", () => {
    expect(resultOf('{"ip4":{"ip":"192.0.2.7/24"}}', "").ips).toHaveLength(1)
  })

  test("of another version than the configuration's is read by its own", () => {
    expect(resultOf('{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.7/24"}}', "1.1.0").ips).toHaveLength(1)
  })

  test("#145 may be null: an empty one", () => {
    expect(resultOf("null", "1.0.0")).toEqual(empty)
  })

  test.each(["", "[]", "oops", "{} {}"])("#146 must not be %j", (text) => {
    expect(() => resultOf(text, "1.0.0")).toThrow("failed to unmarshal raw result: ")
  })
})

describe("a plugin inside this executable", () => {
  const stdin = new TextEncoder().encode(config)
  const builtins = { pool: () => ({ stdout: oneAddress, exitCode: 0 }) }

  /** Returns the delegates of a directory in which "pool" is a link to `target`. */
  function linked(directory: PluginDirectory, target: string, table = builtins, self?: string) {
    symlinkSync(target, join(directory.path, "pool"))
    return delegateTo({
      env: { CNI_PATH: directory.path },
      stdin,
      configVersion: "0.4.0",
      builtins: table,
      log() {},
      ...(self && { self }),
    })
  }

  test("is called when the name in CNI_PATH leads to a file of this build that is the plugin, under any name", () => {
    using directory = new PluginDirectory()
    expect(linked(directory, directory.ownPlugin("fast-pool", "pool")).add("pool").ips).toHaveLength(1)
  })

  test("is not called when another file is found there", () => {
    using directory = new PluginDirectory()
    expect(() => linked(directory, "/bin/false").add("pool")).toThrow("exit status 1")
  })

  test("that is a copy of the plugin that calls is refused: it would call itself without end", () => {
    using directory = new PluginDirectory()
    const delegate = linked(directory, directory.ownPlugin("fast-pool", "pool"), builtins, "pool-of-pools")
    expect(delegate.add("pool").ips).toHaveLength(1)
    using other = new PluginDirectory()
    const itself = linked(other, other.ownPlugin("copy", "bridge"), builtins, "bridge")
    expect(() => itself.add("pool")).toThrow('Cannot delegate to "pool": a plugin cannot delegate to itself')
  })

  test("answers by text: its error object is read as that of a process would be", () => {
    using directory = new PluginDirectory()
    const failing = { pool: () => ({ stdout: '{"code":11,"msg":"pool is full"}', exitCode: 1 }) }
    const delegate = linked(directory, directory.ownPlugin("fast-pool", "pool"), failing)
    expect(() => delegate.add("pool")).toThrow(expect.objectContaining({ code: 11, message: "pool is full" }))
  })

  test("that fails without a word is told by its exit status", () => {
    using directory = new PluginDirectory()
    const delegate = linked(directory, directory.ownPlugin("fast-pool", "pool"), {
      pool: () => ({ stdout: "", exitCode: 3 }),
    })
    const refused = { code: 0, message: "netplugin failed with no error message: exit status 3" }
    expect(() => delegate.check("pool")).toThrow(expect.objectContaining(refused))
  })

  test("gets its verb, the rest of the environment, and the configuration", () => {
    using directory = new PluginDirectory()
    const seen: unknown[] = []
    const spy = {
      pool: (...call: unknown[]) => {
        seen.push(...call)
        return { stdout: "", exitCode: 0 }
      },
    }
    linked(directory, directory.ownPlugin("fast-pool", "pool"), spy).del("pool")
    expect(seen).toEqual([{ env: { CNI_PATH: directory.path, CNI_COMMAND: "DEL" }, stdin }])
  })
})
