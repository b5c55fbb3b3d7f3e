import { afterAll, beforeAll, expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import {
  builtPlugins,
  type Change,
  expectUnchanged,
  HostNamespace,
  isAllocationTrace,
  mustRun,
  takeSnapshot,
  waitFor,
} from "../lab/mod.ts"
import { Consumer } from "./consumer.ts"

const network = {
  cniVersion: "1.0.0",
  name: "lab",
  plugins: [
    {
      type: "bridge",
      bridge: "lab0",
      isGateway: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

/** A runtime that uses the package: COMMAND CONFLIST CONTAINERID NETNS, as `go-runtime.go`. With HOLD, ADD waits. */
const program = `
import { existsSync, writeFileSync } from "node:fs"
import { addNetwork, checkNetwork, delNetwork, gcNetwork, loadNetworkFile, readCache } from "libcni"
const [command, conflist, containerId, netns] = process.argv.slice(2)
const network = loadNetworkFile(conflist)
const { CNI_PATH, CACHE_DIR, HELD } = process.env
const attachment = { containerId, netns, ifName: "eth0", args: [], capabilityArgs: {} }
const ports = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] }
const exec = {
  findPlugin: (type) => type,
  async run({ env }) {
    writeFileSync(HELD, String(process.pid), { flag: "wx" }) // throws where another process is inside
    while (existsSync(HELD)) await new Promise((tick) => setTimeout(tick, 5))
    return { stdout: env.CNI_COMMAND === "ADD" ? '{"cniVersion":"1.0.0"}' : "", stderr: "", cause: undefined }
  },
}
const runtime = { path: CNI_PATH.split(":"), cacheDir: CACHE_DIR, env: process.env, stderr: (chunk) => process.stderr.write(chunk) }
const commands = {
  ADD: () => addNetwork(runtime, network, { ...attachment, args: [["IgnoreUnknown", "1"]], capabilityArgs: ports }),
  DEL: () => delNetwork(runtime, network, attachment),
  CHECK: () => checkNetwork(runtime, network, attachment),
  GC: () => gcNetwork(runtime, network, []),
  RESULT: () => readCache(CACHE_DIR, { network: network.name, containerId, ifName: "eth0" }).attachment?.result ?? null,
  HOLD: () => delNetwork({ ...runtime, exec }, network, attachment),
}
try {
  console.log(JSON.stringify((await commands[command]()) ?? null))
} catch (error) {
  console.error(String(error))
  process.exitCode = 1
}
`

let consumer: Consumer
let conflist: string
let goRuntime: string
beforeAll(async () => {
  consumer = await Consumer.create()
  await consumer.write("runtime.mjs", program)
  conflist = await consumer.write("lab.conflist", JSON.stringify(network))
  goRuntime = consumer.file("go-runtime")
  // Compiled with Debian's sources of Go's libcni, without downloads.
  const env = {
    PATH: "/usr/bin:/bin",
    GO111MODULE: "off",
    GOPATH: "/usr/share/gocode",
    GOCACHE: consumer.file("go-cache"),
    CGO_ENABLED: "0",
  }
  const build = ["/usr/bin/go", "build", "-o", goRuntime, join(import.meta.dir, "go-runtime.go")]
  await mustRun(build, { env })
})
afterAll(() => consumer?.[Symbol.asyncDispose]())

type Side = "Go" | "Node" | "Bun"

function commandOf(side: Side, command: string, container: string, netns: string): string[] {
  const own =
    side === "Go"
      ? [goRuntime]
      : [side === "Node" ? (Bun.which("node") ?? "node") : process.execPath, consumer.file("runtime.mjs")]
  return [...own, command, conflist, container, netns]
}

const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", CNI_PATH: builtPlugins, CACHE_DIR: "/var/lib/cni" }

/** Runs a command with one of the libraries on a host, and returns the output. Throws if the command fails. */
async function ask(host: HostNamespace, side: Side, command: string, container: string, netns = ""): Promise<unknown> {
  const [file = "", ...args] = commandOf(side, command, container, netns)
  const { stdout } = await host.exec(file, args, { env })
  return JSON.parse(stdout)
}

/** Returns what both libraries print of a result. Go's libcni omits keys of other versions, and adds empty dns. */
function telling(result: unknown): object {
  const { cniVersion, ips, interfaces } = result as {
    cniVersion: string
    ips: object[]
    interfaces: { name: string }[]
  }
  return { cniVersion, ips, interfaces: interfaces.map(({ name }) => name) }
}

/** Reports whether a change is the directory of the package's locks, which Go's library does not have. */
const isLock = ({ line }: Change) => line === "/var/lib/cni/locks/"

test.each<[Side, Side]>([
  ["Node", "Go"],
  ["Bun", "Go"],
  ["Go", "Node"],
  ["Go", "Bun"],
  ["Node", "Bun"],
  ["Bun", "Node"],
])("what a runtime on %s has added, one on %s checks, reads and deletes", async (one, other) => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await ask(host, one, "ADD", "warm-up", (await host.addContainer()).path)
  await ask(host, one, "DEL", "warm-up")
  const before = await takeSnapshot(host)
  const result = await ask(host, one, "ADD", "c1", pod.path)
  const port = one === "Go" ? 8081 : 8080
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).toContain(String(port))
  expect(telling(await ask(host, other, "RESULT", "c1"))).toEqual(telling(result))
  if (other === "Go") {
    expect(await ask(host, "Go", "CONFIG", "c1")).toEqual({
      config: network,
      args: [["IgnoreUnknown", "1"]],
      capabilities: { portMappings: [{ hostPort: port, containerPort: 80, protocol: "tcp" }] },
    })
  }
  await ask(host, other, "CHECK", "c1", pod.path)
  await ask(host, other, "DEL", "c1", pod.path)
  expect(await ask(host, one, "RESULT", "c1")).toBe(null)
  expectUnchanged(before, await takeSnapshot(host), (change) => isAllocationTrace(change) || isLock(change))
})

test("what a runtime on Go has left, gcNetwork of one on Node takes away", async () => {
  await using host = await HostNamespace.create()
  for (const container of ["c1", "c2"]) await ask(host, "Go", "ADD", container, (await host.addContainer()).path)
  await ask(host, "Node", "GC", "")
  for (const container of ["c1", "c2"]) expect(await ask(host, "Go", "RESULT", container)).toBe(null)
  expect((await host.exec("ls", ["/var/lib/cni/networks/lab"])).stdout).not.toContain("10.22")
  expect(await host.json<unknown[]>("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
})

test("a process on Node and one on Bun exclude each other for one container, and not for two", async () => {
  await using host = await HostNamespace.create()
  const held = (name: string) => join("/run/cni", name)
  const start = (side: Side, container: string, file: string) => {
    const command = host.commandLine(commandOf(side, "HOLD", container, ""))
    const child = Bun.spawn(command, { env: { ...env, HELD: held(file) }, stdout: "ignore", stderr: "pipe" })
    return { child, ended: child.exited }
  }
  const isHeld = (name: string) => existsSync(host.file(held(name)))
  const letGo = (name: string) => mustRun(["rm", host.file(held(name))])
  for (const [one, other] of [
    ["Node", "Bun"],
    ["Bun", "Node"],
  ] as const) {
    const first = start(one, "c1", "first")
    await waitFor(async () => isHeld("first"), `${one} to be inside`)
    const second = start(other, "c1", "second")
    const beside = start(other, "c2", "beside")
    await waitFor(async () => isHeld("beside"), "the other container's to be inside") // so the second had enough time
    expect(isHeld("second")).toBe(false)
    await letGoOf("beside", beside)
    await letGoOf("first", first)
    await waitFor(async () => isHeld("second"), `${other} to be inside`)
    await letGoOf("second", second)
  }

  /** Releases the chain's two plugins, each of which waits. */
  async function letGoOf(name: string, { child, ended }: ReturnType<typeof start>): Promise<void> {
    await waitFor(async () => {
      if (isHeld(name)) await letGo(name)
      return child.exitCode !== null
    }, `${name} to end`)
    expect({ exitCode: await ended, stderr: await child.stderr.text() }).toEqual({ exitCode: 0, stderr: "" })
  }
})
