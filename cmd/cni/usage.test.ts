import { expect, test } from "bun:test"
import { Lab } from "../../pkg/libcni/testing/lab.ts"
import { recordingTerminal } from "../../tools/testing.ts"
import { cni } from "./main.ts"

function labOfOne(): Lab {
  const lab = new Lab()
  lab.plugin("one")
  lab.conf("net.conflist", { cniVersion: "1.1.0", name: "net", plugins: [{ type: "one" }] })
  return lab
}

async function run(lab: Lab, args: string[]) {
  const terminal = recordingTerminal({ PATH: process.env.PATH })
  const places = ["--conf-dir", lab.confDir, "--bin-dir", lab.binDir, "--cache-dir", lab.cacheDir]
  const code = await cni([...args, ...places], terminal)
  return { code, out: terminal.out, err: terminal.err }
}

async function say(...args: string[]) {
  const terminal = recordingTerminal({})
  return { code: await cni(args, terminal), out: terminal.out, err: terminal.err }
}

test.each([
  [["frob"], 'cni: Cannot run "frob": no such command. "cni --help" lists the commands'],
  [["recorder", "x"], 'cni recorder: Cannot run "x": no such command. "cni recorder --help" lists the commands'],
  [["add", "net"], 'cni add: expected NETWORK and CONTAINER, got net. "cni add --help" shows how'],
  [["add"], 'cni add: expected NETWORK and CONTAINER, got none. "cni add --help" shows how'],
  [["version", "x", "y"], 'cni version: expected no arguments, got x y. "cni version --help" shows how'],
  [["ps", "a", "b"], 'cni ps: expected [NETWORK], got a b. "cni ps --help" shows how'],
  [["explain"], 'cni explain: expected ERROR|CODE|NAME|-…, got none. "cni explain --help" shows how'],
  [
    ["completion", "frob"],
    'cni completion: unknown shell frob: expected bash, zsh, fish. "cni completion --help" shows how',
  ],
  [
    ["graph", "--theme", "x"],
    'cni graph: cannot use --theme x: expected light, dark, auto. "cni graph --help" shows how',
  ],
  [
    ["graph", "-o", "x"],
    'cni graph: cannot use --output x: expected svg, text, wide, json. "cni graph --help" shows how',
  ],
  [["ps", "--jsno"], 'cni ps: unknown flag --jsno (did you mean --json?). "cni ps --help" shows how'],
  [["ps", "--json=1"], 'cni ps: --json takes no value. "cni ps --help" shows how'],
  [["ps", "-o"], 'cni ps: -o needs a value. "cni ps --help" shows how'],
  [
    ["schema", "x"],
    /^cni schema: unknown plugin x: expected conflist, bandwidth, bridge, .*, vrf\. "cni schema --help" shows how$/,
  ],
  [["ipam", "release", "x"], 'cni ipam release: give --address or --container. "cni ipam release --help" shows how'],
])("%j is told what was expected", async (args, message) => {
  const { code, out, err } = await say(...args)
  expect([code, out]).toEqual([2, ""])
  if (typeof message === "string") expect(err).toBe(`${message}\n`)
  else expect(err.trimEnd()).toMatch(message)
})

test.each(["0", "x", "Infinity"])("a limit of %s seconds is refused", async (timeout) => {
  using lab = labOfOne()
  expect(await run(lab, ["status", "net", "--timeout", timeout])).toEqual({
    code: 2,
    out: "",
    err: `cni status: cannot use --timeout ${timeout}: expected a number of seconds above 0. "cni status --help" shows how\n`,
  })
})

test("a plugin that takes longer than its limit is stopped", async () => {
  using lab = labOfOne()
  lab.plugin("one", { STATUS: { script: "sleep 10" } })
  const { code, err } = await run(lab, ["status", "net", "--timeout", "0.05"])
  expect([code, err.startsWith("cni status: ")]).toEqual([1, true])
})

test("status and del say what was found and done: as a sentence, and with -o json as JSON", async () => {
  using lab = labOfOne()
  const say = async (...args: string[]) => (await run(lab, args)).out
  expect(await say("status", "net")).toBe('Network "net" is ready\n')
  expect(JSON.parse(await say("status", "net", "-o", "json"))).toEqual({ network: "net", ready: true, warnings: [] })
  await run(lab, ["add", "net", "/proc/self/ns/net"])
  expect(await say("del", "net", "/proc/self/ns/net")).toBe('Detached eth0 in /proc/self/ns/net from network "net"\n')
  const again = ["del", "net", "/proc/self/ns/net", "--container-id", "c1"]
  expect(await say(...again)).toBe('eth0 in /proc/self/ns/net was not attached to network "net"\n')
  const id = { network: "net", containerId: "c1", ifName: "eth0" }
  expect(JSON.parse(await say(...again, "--json"))).toEqual({ ...id, detached: false })
})
