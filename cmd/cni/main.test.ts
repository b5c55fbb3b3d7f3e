import { expect, test } from "bun:test"
import { Lab } from "../../pkg/libcni/testing/lab.ts"
import { recordingTerminal } from "../../tools/testing.ts"
import { completionScript } from "../completion.ts"
import { cni } from "./main.ts"

const result = {
  cniVersion: "1.1.0",
  interfaces: [{ name: "veth7" }, { name: "eth0", mac: "0a:00:00:00:00:08", sandbox: "/run/netns/x" }],
  ips: [{ address: "192.0.2.9/24", gateway: "192.0.2.1", interface: 1 }],
  routes: [{ dst: "0.0.0.0/0", gw: "192.0.2.1" }],
}

function labOfOne(): Lab {
  const lab = new Lab()
  lab.plugin("one", { ADD: { stdout: JSON.stringify(result) } })
  lab.conf("net.conflist", { cniVersion: "1.1.0", name: "net", plugins: [{ type: "one" }] })
  return lab
}

async function run(lab: Lab, args: string[], { env = {} } = {}) {
  const terminal = recordingTerminal({ PATH: process.env.PATH, ...env })
  const places = ["--conf-dir", lab.confDir, "--bin-dir", lab.binDir, "--cache-dir", lab.cacheDir]
  const code = await cni([...args, ...places], terminal)
  return { code, out: terminal.out, err: terminal.err }
}

async function say(...args: string[]) {
  const terminal = recordingTerminal({})
  return { code: await cni(args, terminal), out: terminal.out, err: terminal.err }
}

test("add prints a table, into a pipe as well, and JSON when that is asked for", async () => {
  using lab = labOfOne()
  const seen = await run(lab, ["add", "net", "/proc/self/ns/net"])
  expect(seen.out).toBe(
    [
      "INTERFACE  WHERE         MAC                ADDRESS       GATEWAY",
      "veth7      host          -                  -             -",
      "eth0       /run/netns/x  0a:00:00:00:00:08  192.0.2.9/24  192.0.2.1",
      "",
      "ROUTE      VIA",
      "0.0.0.0/0  192.0.2.1",
      "",
    ].join("\n"),
  )
  for (const [at, json] of [["--json"], ["-o", "json"], ["--output=json"]].entries()) {
    expect(
      JSON.parse((await run(lab, ["add", "net", "/proc/self/ns/net", "--ifname", `net${at}`, ...json])).out),
    ).toEqual(result)
  }
})

test("del uses the arguments of the add again", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/proc/self/ns/net"], { env: { CNI_ARGS: "a=b" } })
  await run(lab, ["del", "net", "/proc/self/ns/net"])
  expect(lab.calls.map((call) => `${call.verb} ${call.args}`)).toEqual(["ADD a=b", "DEL a=b"])
})

test("a failed add is undone, and the error says why; with --json it is the protocol's error object", async () => {
  using lab = labOfOne()
  lab.plugin("one", { ADD: { stdout: '{"code":100,"msg":"no","details":"really"}', code: 1 } })
  const said = await run(lab, ["add", "net", "/proc/self/ns/net"])
  expect(said).toEqual({ code: 1, out: "", err: 'cni add: plugin type="one" failed (add): no\n  really\n' })
  expect(lab.sequence).toEqual(["ADD one", "DEL one"])
  const json = await run(lab, ["add", "net", "/proc/self/ns/net", "-o", "json"])
  expect(JSON.parse(json.out)).toMatchObject({ code: 100, details: "really" })
})

test("gc without knowing what to keep deletes nothing", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/proc/self/ns/net"])
  expect(await run(lab, ["gc", "net"])).toMatchObject({ code: 2, err: expect.stringContaining("--keep NAME") })
  for (const keep of ["x", "/eth0", "x/", "x/y/z"])
    expect(await run(lab, ["gc", "net", "--keep", keep])).toMatchObject({
      code: 1,
      out: "",
      err: expect.stringContaining(`Cannot find container "${keep}"`),
    })
  expect(lab.sequence).toEqual(["ADD one"])
})

test("gc deletes what is not on the list", async () => {
  using lab = labOfOne()
  for (const id of ["c1", "c2"]) await run(lab, ["add", "net", "/proc/self/ns/net", "--container-id", id])
  const { code, out } = await run(lab, ["gc", "net", "--keep", "c1/eth0"])
  expect({ code, out }).toEqual({
    code: 0,
    out: [
      "WHAT    KIND        NAME     OF",
      "keep    attachment  c1/eth0  /proc/self/ns/net",
      "delete  attachment  c2/eth0  /proc/self/ns/net",
      "",
    ].join("\n"),
  })
  expect(lab.calls.slice(2).map((call) => `${call.verb} ${call.id}`)).toEqual(["DEL c2", "GC "])
})

test("gc --auto keeps the attachments whose namespace exists, and --dry-run only tells", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/proc/self/ns/net", "--container-id", "alive"])
  await run(lab, ["add", "net", "/run/netns/gone-for-good", "--container-id", "dead"])
  const dry = await run(lab, ["gc", "net", "--auto", "--dry-run"])
  expect(dry.out).toMatch(/keep +attachment +alive\/eth0/)
  expect(dry.out).toMatch(/would delete +attachment +dead\/eth0/)
  expect(lab.sequence).toEqual(["ADD one", "ADD one"])
  const real = await run(lab, ["gc", "net", "--auto"])
  expect(real.out.split(/\s+/)).toEqual(dry.out.replaceAll("would delete", "delete").split(/\s+/))
  expect(lab.calls.slice(2).map((call) => `${call.verb} ${call.id}`)).toEqual(["DEL dead", "GC "])
  expect(lab.calls.at(-1)?.stdin["cni.dev/valid-attachments"]).toEqual([{ containerID: "alive", ifname: "eth0" }])
})

test("a command line that cannot be understood: exit code 2, and where the help is", async () => {
  using lab = labOfOne()
  for (const args of [
    ["add", "net"],
    ["add", "net", "x", "y"],
    ["status", "net", "--what"],
    ["frob"],
    ["help", "frob"],
  ]) {
    const { code, out, err } = await run(lab, args)
    expect([code, out]).toEqual([2, ""])
    expect(err).toContain("--help")
  }
})

test("every command has a help with a usage line, asked for in either way", async () => {
  const commands = [
    "add",
    "check",
    "del",
    "status",
    "reattach",
    "gc",
    "dhcp ls",
    "ipam ls",
    "ipam release",
    "install",
    "migrate",
    "completion",
    "version",
  ]
  for (const command of commands) {
    const words = command.split(" ")
    const [flag, word] = [await say(...words, "--help"), await say("help", ...words)]
    expect(flag).toEqual({ code: 0, out: expect.stringContaining(`Usage:\n  cni ${command}`), err: "" })
    expect(word).toEqual(flag)
    expect(flag.out).not.toMatch(/^ {2}--\S+ [A-Z]+[a-z]/m) // a value without a space before its explanation
  }
})

test("a group's help lists its commands, for each way to ask", async () => {
  const help = await say("ipam")
  expect(help).toMatchObject({ code: 0, err: "" })
  expect(help.out).toContain("Usage:\n  cni ipam COMMAND")
  const listed = help.out.split("\n").filter((line) => line.startsWith("  ipam "))
  expect(listed.map((line) => line.split(/ {2,}/)[1])).toEqual(["ipam ls", "ipam release"])
  for (const words of [
    ["ipam", "--help"],
    ["ipam", "-h"],
    ["help", "ipam"],
    ["--help", "ipam"],
  ]) {
    expect(await say(...words)).toEqual(help)
  }
})

test("the tool's help lists every command, for each way to ask", async () => {
  const help = await say()
  for (const command of ["add", "ipam ls", "ipam release", "version"]) expect(help.out).toContain(`\n  ${command} `)
  for (const words of [["--help"], ["-h"], ["help"], ["help", "--help"]]) expect(await say(...words)).toEqual(help)
})

test("a command that a group does not have is a usage error that names the group's help", async () => {
  const err = 'cni ipam: Cannot run "frob": no such command. "cni ipam --help" lists the commands\n'
  expect(await say("ipam", "frob")).toEqual({ code: 2, out: "", err })
  expect(await say("help", "ipam", "frob")).toEqual({ code: 2, out: "", err })
  expect(await say("ipam", "frob", "--help")).toEqual({ code: 2, out: "", err })
})

test.each(["--dry-run", "--containers", "--flows", "--only=portmap"])(
  "the listener takes no %s: it would do what was not asked",
  async (flag) => {
    const { code, err } = await say("reconcile", "--listen", flag)
    expect({ code, err: err.split("\n")[0] }).toEqual({
      code: 2,
      err: `cni reconcile: cannot use --listen with ${flag.split("=")[0]}. "cni reconcile --help" shows how`,
    })
  },
)

test("check tells a human what was found, or that no plugin was asked", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/proc/self/ns/net"])
  const check = () => run(lab, ["check", "net", "/proc/self/ns/net"])
  expect((await check()).out).toBe("eth0 in /proc/self/ns/net is unchanged\n")
  lab.conf("net.conflist", { cniVersion: "1.1.0", name: "net", disableCheck: true, plugins: [{ type: "one" }] })
  expect((await check()).out).toBe('eth0 in /proc/self/ns/net: not checked, the network has "disableCheck"\n')
  expect(lab.sequence).toEqual(["ADD one", "CHECK one"])
})

test("completion prints the script of a shell; a shell that it does not know is a usage error", async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    expect(await say("completion", shell)).toEqual({ code: 0, out: String(completionScript("cni", shell)), err: "" })
  }
  expect(await say("completion", "frob")).toMatchObject({ code: 2, out: "", err: expect.stringContaining("bash, zsh") })
  expect(await say("completion")).toMatchObject({ code: 2, out: "" })
  expect((await say("help", "completion")).out).toContain("source <(cni completion bash)")
})

test("every command line can be completed, with the networks where the configurations are", async () => {
  using lab = labOfOne()
  const offers = async (...words: string[]) => {
    const terminal = recordingTerminal({ NETCONFPATH: lab.confDir })
    expect([await cni(["__complete", ...words], terminal), terminal.err]).toEqual([0, ""])
    return terminal.out.split("\n").slice(0, -1)
  }
  const verbs = [
    "add",
    "check",
    "del",
    "status",
    "reattach",
    "reconcile",
    "gc",
    "ps",
    "doctor",
    "trace",
    "test",
    "graph",
    "log",
    "metrics",
    "recorder",
    "dhcp",
    "ipam",
    "dry-run",
    "diff",
    "explain",
    "lint",
    "schema",
    "install",
    "migrate",
    "completion",
    "version",
    "help",
  ]
  expect(await offers("")).toEqual(verbs)
  for (const command of ["add", "check", "del", "status", "gc", "ipam ls", "ipam release"]) {
    expect(await offers(...command.split(" "), "")).toEqual(["net"])
  }
  expect(await offers("ipam", "")).toEqual(["ls", "release"])
  expect(await offers("gc", "net", "--d")).toEqual(["--dry-run"])
  expect(await offers("status", "--conf-dir", "/does/not/exist", "")).toEqual([])
})

test("broken files beside the network are a warning", async () => {
  using lab = labOfOne()
  lab.conf("00-broken.conflist", "{")
  expect(await run(lab, ["status", "net"])).toMatchObject({
    code: 0,
    err: expect.stringContaining("Skipped 00-broken"),
  })
})
