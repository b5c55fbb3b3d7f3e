import { expect, test } from "bun:test"
import { readFileSync, readlinkSync, rmSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { checkNetwork } from "./check.ts"
import { delNetwork } from "./del.ts"
import { gcNetwork } from "./gc.ts"
import type { Network, Runtime } from "./network.ts"
import { statusNetwork, validateNetwork } from "./status.ts"
import { attachmentOf, type Behaviour, failure, Lab, networkOf } from "./testing/lab.ts"

const one = networkOf([{ type: "one" }])
const valid = [{ containerId: "c1", ifName: "eth0" }]

/** Every operation of the library, in an order in which all can succeed. */
const operations: Readonly<Record<string, (runtime: Runtime, network: Network) => Promise<unknown>>> = {
  ADD: (runtime, network) => addNetwork(runtime, network, attachmentOf()),
  CHECK: (runtime, network) => checkNetwork(runtime, network, attachmentOf()),
  STATUS: statusNetwork,
  GC: (runtime, network) => gcNetwork(runtime, network, valid),
  DEL: (runtime, network) => delNetwork(runtime, network, attachmentOf()),
}

async function runAll(runtime: Runtime, network: Network): Promise<void> {
  for (const run of Object.values(operations)) await run(runtime, network)
}

const always = (behaviour: Behaviour) =>
  Object.fromEntries(
    Object.keys(operations).map((verb) => [verb, { ...behaviour, ...(verb === "ADD" ? { stdout: "{}" } : {}) }]),
  )

test("#190 every operation's request has the network's name and version, also where the plugin object has its own", async () => {
  using lab = new Lab()
  lab.plugin("one")
  await runAll(lab.runtime, networkOf([{ type: "one", name: "own", cniVersion: "0.3.0" }]))
  expect(lab.calls.map(({ verb }) => verb)).toEqual(Object.keys(operations))
  for (const { stdin } of lab.calls) expect(stdin).toMatchObject({ name: "lab", cniVersion: "1.1.0" })
})

test("#133, #135 what a plugin writes to stderr is told once: passed on, or quoted by the error when it said nothing else", async () => {
  using lab = new Lab()
  for (const [verb, run] of Object.entries(operations)) {
    lab.stderr = ""
    lab.plugin("one", { [verb]: { stderr: "words\n", code: 3 } })
    const quoting = await failure(run(lab.runtime, one))
    expect(`${verb} ${String(quoting)}`).toContain('netplugin failed: "words\\n": exit status 3')
    expect(`${verb} ${lab.stderr}`).toBe(`${verb} `)

    lab.plugin("one", { [verb]: { stdout: '{"code":100,"msg":"no"}', stderr: "words\n", code: 1 } })
    expect(String(await failure(run(lab.runtime, one)))).not.toContain("words")
    expect(`${verb} ${lab.stderr}`).toBe(`${verb} words\n`)
    lab.plugin("one")
    await run(lab.runtime, one)
  }
})

test("#232 ADD, CHECK and DEL do not send capabilities", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const network = networkOf([{ type: "one", capabilities: { mac: true } }])
  for (const run of [operations.ADD, operations.CHECK, operations.DEL]) await run?.(lab.runtime, network)
  expect(lab.calls.map(({ verb }) => verb)).toEqual(["ADD", "CHECK", "DEL"])
  for (const { stdin } of lab.calls) expect(stdin).not.toHaveProperty("capabilities")
})

test("#194 a missing executable is an error of every operation", async () => {
  using lab = new Lab()
  lab.plugin("one")
  await addNetwork(lab.runtime, one, attachmentOf())
  rmSync(join(lab.binDir, "one"))
  const another = (runtime: Runtime, network: Network) =>
    addNetwork(runtime, network, attachmentOf({ containerId: "c2" }))
  const runs = [...Object.values({ ...operations, ADD: another }), validateNetwork]
  for (const run of runs) {
    expect((await failure(run(lab.runtime, one))).message).toContain(
      `failed to find plugin "one" in path [${lab.binDir}]`,
    )
  }
})

test("#147 what a plugin prints is ignored for all but ADD", async () => {
  using lab = new Lab()
  lab.plugin("one", always({ stdout: "no JSON, }{ by any means" }))
  await runAll(lab.runtime, one)
  expect(lab.calls).toHaveLength(5)
})

test("#141 the six CNI_* variables of the runtime's own give way, each is there once; others are passed on", async () => {
  using lab = new Lab()
  const file = join(lab.root, "env")
  lab.plugin("one", always({ script: `env | grep "^CNI_" | sort >${file}` }))
  const strange = {
    CNI_COMMAND: "FROB",
    CNI_IFNAME: "eth9",
    CNI_ARGS: "A=b",
    CNI_NETNS: "/x",
    CNI_PATH: "/y",
    CNI_NETNS_OVERRIDE: "1",
  }
  const runtime = { ...lab.runtime, env: { PATH: process.env.PATH, ...strange } }
  await addNetwork(runtime, one, attachmentOf())
  const lines = (verb: string, id: string, ifName: string, netns: string) =>
    `CNI_ARGS=\nCNI_COMMAND=${verb}\nCNI_CONTAINERID=${id}\nCNI_IFNAME=${ifName}\nCNI_NETNS=${netns}\nCNI_NETNS_OVERRIDE=1\nCNI_PATH=${lab.binDir}\n`
  expect(readFileSync(file, "utf8")).toBe(lines("ADD", "c1", "eth0", "/run/netns/c1"))
  await statusNetwork(runtime, one)
  expect(readFileSync(file, "utf8")).toBe(lines("STATUS", "", "", ""))
})

test("#161 the runtime's span reaches the plugin as TRACEPARENT and its like; without one none is set", async () => {
  using lab = new Lab()
  const file = join(lab.root, "env")
  lab.plugin("one", always({ script: `env | grep -E "^(TRACE|BAGGAGE)" | sort >${file}` }))
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
  await statusNetwork({ ...lab.runtime, trace: { traceparent, tracestate: "a=1", baggage: "b=2" } }, one)
  expect(readFileSync(file, "utf8")).toBe(`BAGGAGE=b=2\nTRACEPARENT=${traceparent}\nTRACESTATE=a=1\n`)
  await statusNetwork(lab.runtime, one)
  expect(readFileSync(file, "utf8")).toBe("")
})

test("#233 plugins run in the runtime's own network namespace, not in the container's", async () => {
  using lab = new Lab()
  const file = join(lab.root, "netns")
  lab.plugin("one", always({ script: `readlink /proc/self/ns/net >>${file}` }))
  await runAll(lab.runtime, one)
  expect(new Set(readFileSync(file, "utf8").trim().split("\n"))).toEqual(new Set([readlinkSync("/proc/self/ns/net")]))
})
