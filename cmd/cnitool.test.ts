import { expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { resolve } from "node:path"
import { staticIpam } from "../ipam/static/main.ts"
import { Lab } from "../pkg/libcni/testing/lab.ts"
import { serve } from "../pkg/skel/mod.ts"
import { containerIdOf } from "../tools/environment.ts"
import { recordingTerminal } from "../tools/testing.ts"
import { cnitool } from "./cnitool.ts"
import { completionScript } from "./completion.ts"

function labOfOne(): Lab {
  const lab = new Lab()
  lab.plugin("one", { ADD: { stdout: '{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.1/24"}]}' } })
  lab.conf("net.conflist", {
    cniVersion: "1.1.0",
    name: "net",
    plugins: [{ type: "one", capabilities: { mac: true } }],
  })
  return lab
}

async function run(lab: Lab, args: string[], env: Record<string, string | undefined> = {}) {
  const terminal = recordingTerminal({ NETCONFPATH: lab.confDir, CNI_PATH: lab.binDir, PATH: process.env.PATH, ...env })
  const code = await cnitool(args, terminal, lab.cacheDir)
  return { code, out: terminal.out, err: terminal.err }
}

test("#231 add of what is added already runs the plugins again, which may find that a reboot has taken it all", async () => {
  using lab = labOfOne()
  for (const _again of [1, 2]) expect((await run(lab, ["add", "net", "/run/netns/x"])).code).toBe(0)
  expect(lab.sequence).toEqual(["ADD one", "ADD one"])
  lab.plugin("one", { ADD: { stdout: '{"code":100,"msg":"eth0 already exists"}', code: 1 } })
  const { code, err } = await run(lab, ["add", "net", "/run/netns/x"])
  expect(code).toBe(1)
  expect(err).toContain("eth0 already exists")
})

test("#235 add prints the result with four spaces and no newline at the end", async () => {
  using lab = labOfOne()
  const { code, out, err } = await run(lab, ["add", "net", "/run/netns/x"])
  expect({ code, err }).toEqual({ code: 0, err: "" })
  expect(out).toBe(JSON.stringify({ cniVersion: "1.1.0", ips: [{ address: "192.0.2.1/24" }] }, null, 4))
})

test("#236 check, del, gc and status print nothing", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/run/netns/x"])
  lab.plugin("one", Object.fromEntries(["CHECK", "DEL", "GC", "STATUS"].map((verb) => [verb, { stdout: "ignored" }])))
  for (const command of ["check", "del", "gc", "status"]) {
    expect(await run(lab, [command, "net", "/run/netns/x"])).toEqual({ code: 0, out: "", err: "" })
  }
})

test("#237 fewer than two arguments: exit code 1 and how many there were", async () => {
  using lab = labOfOne()
  for (const command of ["add", "check", "del", "gc", "status"]) {
    for (const args of [[], ["net"]]) {
      const { code, out, err } = await run(lab, [command, ...args])
      expect([code, out]).toEqual([1, ""])
      expect(err).toStartWith(`Error: requires at least 2 arg(s), only received ${args.length}\nUsage:\n`)
    }
  }
})

test("#238 a failure is told on stderr, before and after the usage; stdout stays empty", async () => {
  using lab = labOfOne()
  lab.plugin("one", { ADD: { stdout: '{"code":100,"msg":"no","details":"really"}', code: 1 } })
  const { code, out, err } = await run(lab, ["add", "net", "/run/netns/x"])
  expect([code, out]).toEqual([1, ""])
  expect(err).toStartWith('Error: plugin type="one" failed (add): no; really\nUsage:\n  cnitool add NETWORK NETNS')
  expect(err).toEndWith('\n\nplugin type="one" failed (add): no; really\n')
})

test("a plugin's own words on stderr are told where the error is, and nowhere else", async () => {
  using lab = labOfOne()
  lab.plugin("one", { ADD: { stderr: "what it said", code: 1 } })
  const { err } = await run(lab, ["add", "net", "/run/netns/x"])
  expect(err).toStartWith("Error: ")
  expect(err.match(/what it said/g)).toHaveLength(2) // the error is before and after the usage
})

test.each([
  ["of a network that does not exist", ["add", "other", "x"], {}, 'no net configuration with name "other"'],
  ["to find the plugin", ["status", "net", "x"], { CNI_PATH: "/does/not/exist" }, 'failed to find plugin "one"'],
  ["of a check without an add", ["check", "net", "x"], {}, "no cached result"],
  ["of an unknown flag", ["add", "net", "x", "--frob"], {}, "--frob"],
  ["of a flag without its value", ["add", "net", "x", "-i"], {}, "-i"],
  ["of a name for the interface", ["add", "net", "x", "-i", "a/b"], {}, "interface name contains / or :"],
])("#238 a failure %s: exit code 1, words on stderr, nothing on stdout", async (_, args, env, words) => {
  using lab = labOfOne()
  const { code, out, err } = await run(lab, args, env)
  expect([code, out]).toEqual([1, ""])
  expect(err).toStartWith("Error: ")
  expect(err).toContain(words)
})

test("#239 without NETCONFPATH the configurations are in /etc/cni/net.d", async () => {
  using lab = labOfOne()
  for (const NETCONFPATH of ["", undefined]) {
    const { err } = await run(lab, ["status", "no-such-network", "x"], { NETCONFPATH })
    expect(err).toMatch(/^Error: no net configuration.* in \/etc\/cni\/net\.d/)
  }
})

test("#240 the interface is named by the flag, else by CNI_IFNAME, else eth0", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/run/netns/x", "-i", "flag0"], { CNI_IFNAME: "env0" })
  await run(lab, ["--ifname=flag1", "add", "net", "/run/netns/x"])
  await run(lab, ["add", "net", "/run/netns/x"], { CNI_IFNAME: "env0" })
  await run(lab, ["add", "net", "/run/netns/x"])
  expect(lab.calls.map((call) => call.ifname)).toEqual(["flag0", "flag1", "env0", "eth0"])
})

test("#241, #242 the namespace becomes absolute, and the container ID is made from that", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "some/../ns"])
  expect(lab.calls[0]).toMatchObject({ netns: resolve("ns"), id: containerIdOf(resolve("ns")) })
  expect(containerIdOf("/var/run/netns/zz")).toBe("cnitool-3bd8a4f54a807514e6d8")
})

test("#243 CNI_ARGS that are not pairs are refused", async () => {
  using lab = labOfOne()
  for (const args of ["=v", "k=", "k=v=w", "k=v;", "k"]) {
    const { code, err } = await run(lab, ["add", "net", "/run/netns/x"], { CNI_ARGS: args })
    expect(code).toBe(1)
    expect(err).toStartWith("Error: invalid CNI_ARGS pair ")
  }
  await run(lab, ["add", "net", "/run/netns/x"], { CNI_ARGS: "a=b;c=d" })
  expect(lab.calls.map((call) => call.args)).toEqual(["a=b;c=d"])
})

test("#244 CAP_ARGS must be a JSON object; what the plugin asked for reaches it", async () => {
  using lab = labOfOne()
  for (const capabilities of ["[]", "1", "{", "null"]) {
    expect((await run(lab, ["add", "net", "/run/netns/x"], { CAP_ARGS: capabilities })).code).toBe(1)
  }
  await run(lab, ["add", "net", "/run/netns/x"], { CAP_ARGS: '{"mac":"0a:00:00:00:00:01","ips":[]}' })
  expect(lab.calls[0]?.stdin.runtimeConfig).toEqual({ mac: "0a:00:00:00:00:01" })
})

test("#245 gc deletes every attachment of the network, and the help warns of it", async () => {
  using lab = labOfOne()
  for (const netns of ["/run/netns/x", "/run/netns/y"]) await run(lab, ["add", "net", netns])
  await run(lab, ["gc", "net", "ignored"])
  expect(lab.sequence.slice(2)).toEqual(["DEL one", "DEL one", "GC one"])
  expect(readdirSync(lab.results)).toEqual([])
  expect((await run(lab, ["--help"])).out).toMatch(/^ {2}gc +Delete EVERY attachment of a network, of all containers/m)
})

test("#229 a runtime of the 0.1.0 era is served by a plugin built on the skeleton, with a version and without", () => {
  for (const version of [{ cniVersion: "0.1.0" }, {}]) {
    const config = {
      ...version,
      name: "net",
      type: "static",
      ipam: { type: "static", addresses: [{ address: "192.0.2.5/24" }] },
    }
    const call = (command: string) => {
      const variables = { CNI_CONTAINERID: "c1", CNI_NETNS: "/run/netns/of-then", CNI_IFNAME: "eth0", CNI_PATH: "/bin" }
      const stdin = () => new TextEncoder().encode(JSON.stringify(config))
      return serve(staticIpam, { env: { CNI_COMMAND: command, ...variables }, stdin, log: () => {} })
    }
    const added = call("ADD")
    expect(added.exitCode).toBe(0)
    expect(JSON.parse(added.stdout)).toEqual({ cniVersion: "0.1.0", ip4: { ip: "192.0.2.5/24" }, dns: {} })
    expect(call("DEL")).toMatchObject({ exitCode: 0, stdout: "" })
  }
})

test("del uses the network as it was at add, also when its file says something else by now", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/run/netns/x"], { CAP_ARGS: '{"mac":"0a:00:00:00:00:01"}' })
  lab.conf("net.conflist", { cniVersion: "1.1.0", name: "net", plugins: [{ type: "two" }] })
  expect(await run(lab, ["del", "net", "/run/netns/x"])).toEqual({ code: 0, out: "", err: "" })
  expect(lab.sequence).toEqual(["ADD one", "DEL one"])
  expect(lab.calls[1]?.stdin.runtimeConfig).toEqual({ mac: "0a:00:00:00:00:01" })
})

test("completion prints the script of a shell, tells how it is used, and refuses a shell that it does not know", async () => {
  using lab = labOfOne()
  for (const shell of ["bash", "zsh", "fish"]) {
    for (const more of [[], ["--no-descriptions"]]) {
      expect(await run(lab, ["completion", shell, ...more])).toEqual({
        code: 0,
        out: String(completionScript("cnitool", shell)),
        err: "",
      })
    }
  }
  for (const args of [["completion"], ["completion", "bash", "--help"], ["help", "completion"]]) {
    expect(await run(lab, args)).toMatchObject({ code: 0, err: "", out: expect.stringContaining("source <(cnitool") })
  }
  expect(await run(lab, ["completion", "frob"])).toMatchObject({
    code: 1,
    out: "",
    err: expect.stringMatching(
      /^Error: unknown shell "frob": expected bash, zsh, fish\nUsage:\n {2}cnitool completion/,
    ),
  })
  expect((await run(lab, ["--help"])).out).toMatch(/^ {2}completion +Print/m)
  expect((await run(lab, ["__complete", "add", ""])).out).toBe("net\n")
})

test("no CNI_PATH, no command, an unknown command", async () => {
  using lab = labOfOne()
  expect((await run(lab, ["add", "net", "x"], { CNI_PATH: "" })).err).toStartWith("Error: no paths provided")
  expect(await run(lab, [])).toMatchObject({
    code: 0,
    err: "",
    out: expect.stringContaining("cnitool COMMAND NETWORK NETNS"),
  })
  expect(await run(lab, ["frob", "net", "x"])).toEqual({
    code: 1,
    out: "",
    err: `Error: unknown command "frob" for "cnitool"\nRun 'cnitool --help' for usage.\nunknown command "frob" for "cnitool"\n`,
  })
})
