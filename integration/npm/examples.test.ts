import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { askFromHost, nameServer, writeRoot } from "../interop/busybox.ts"
import { confDir, RuntimeHost } from "../interop/runtime-host.ts"
import {
  builtPlugins,
  type Change,
  expectUnchanged,
  HostNamespace,
  isAllocationTrace,
  type Output,
  waitFor,
} from "../lab/mod.ts"
import { Consumer, type Engines, engineNames, installEngines, project } from "./consumer.ts"

let consumer: Consumer
let engines: Engines
beforeAll(async () => {
  engines = await installEngines()
  consumer = await Consumer.create()
  for (const name of ["runtime", "multus"]) {
    await consumer.transpile(`${name}.mjs`, await Bun.file(join(project, `examples/${name}/${name}.ts`)).text())
  }
})
afterAll(() => consumer?.[Symbol.asyncDispose]())

const network = {
  cniVersion: "1.1.0",
  name: "lab",
  plugins: [
    {
      type: "bridge",
      bridge: "lab0",
      isDefaultGateway: true,
      ipMasq: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
    { type: "firewall" },
  ],
}

/** The example runtime on its own host, executed by one engine. */
class Example implements AsyncDisposable {
  readonly host: RuntimeHost
  readonly root: string
  readonly #engine: string

  private constructor(host: RuntimeHost, root: string, engine: string) {
    this.host = host
    this.root = root
    this.#engine = engine
  }

  static async create(engine: string): Promise<Example> {
    const host = await RuntimeHost.create()
    await host.write(`${confDir}/10-lab.conflist`, network)
    return new Example(host, await writeRoot(host), engine)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.host[Symbol.asyncDispose]()
  }

  commandLine(...args: string[]): string[] {
    const env = ["env", `CNI_PATH=${builtPlugins}`, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    return [...env, engines[this.#engine] ?? "", consumer.file("runtime.mjs"), ...args]
  }

  async run(...args: string[]): Promise<string> {
    const [program = "", ...rest] = this.commandLine(...args)
    return (await this.host.exec(program, rest)).stdout
  }

  try(...args: string[]): Promise<Output> {
    const [program = "", ...rest] = this.commandLine(...args)
    return this.host.tryExec(program, rest)
  }

  start(name: string, ...flags: string[]): Promise<string> {
    return this.run("run", ...flags, "--", name, this.root, ...nameServer)
  }
}

test.each(engineNames)("examples/runtime runs, publishes, restarts and removes containers on %s", async (engine) => {
  await using example = await Example.create(engine)
  const { host } = example
  await example.start("warm-up")
  await example.run("rm", "warm-up")
  const before = await host.snapshot()
  await example.start("web", "--publish", "8080:80")
  expect(await askFromHost(host, "127.0.0.1", 8080)).toBe("web")
  expect(await example.run("ps")).toMatch(/^web lab 10\.22\.0\.\d+\/16\n$/)
  const refused = await example.try("run", "--publish", "8080:80", "--", "other", example.root, ...nameServer)
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(/^Error \d+: .*8080/) })
  expect(await example.run("ps")).toMatch(/^web lab \S+\n$/)
  await host.exec("nft", ["flush", "ruleset"])
  await example.run("restart", "web")
  expect(await askFromHost(host, "127.0.0.1", 8080)).toBe("web")
  await example.run("rm", "web")
  // The flush deleted the record of portmap's links, so route_localnet stays enabled, with its guard.
  const isGuard = ({ line }: Change) => /route_localnet|cni_hostports/.test(line)
  expectUnchanged(before, await host.snapshot(), (change) => isAllocationTrace(change) || isGuard(change))
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).not.toContain("8080")
})

/** The moments at which the test kills a run. `reached` reports whether the run has reached a moment. */
const moments: readonly (readonly [what: string, reached: (example: Example) => Promise<boolean>])[] = [
  ["its record is there", (example) => has(example, "/run/libcni-runtime/web/container.json")],
  ["its namespace is there", (example) => has(example, "/run/libcni-runtime/web/netns")],
  ["an ADD has begun", (example) => has(example, "/var/lib/cni/locks/web")],
  [
    "an address is leased",
    async (example) => (await namesIn(example, "/var/lib/cni/networks/lab")).some((name) => /^10/.test(name)),
  ],
  ["its result is kept", (example) => has(example, "/var/lib/cni/results/lab-web-eth0")],
  ["its process has begun", (example) => has(example, "/run/libcni-runtime/.crun/web")],
]

const namesIn = (example: Example, directory: string) => readdir(example.host.file(directory)).catch(() => [])
const has = (example: Example, path: string) =>
  Bun.file(example.host.file(path))
    .exists()
    .catch(() => false)
    .then(async (is) => is || (await namesIn(example, path)).length > 0)

test.each(["Node 22", "Bun"])(
  "examples/runtime that is killed leaves nothing once it is started again, on %s",
  async (engine) => {
    await using example = await Example.create(engine)
    await example.start("warm-up", "--publish", "8081:80")
    await example.run("rm", "warm-up")
    const before = await example.host.snapshot()
    for (const [what, reached] of moments) {
      const [program = "", ...args] = example.host.commandLine(
        example.commandLine("run", "--publish", "8080:80", "--", "web", example.root, ...nameServer),
      )
      const killed = Bun.spawn([program, ...args], { stdout: "ignore", stderr: "ignore" })
      await waitFor(async () => killed.exitCode !== null || (await reached(example)) || undefined, what)
      killed.kill("SIGKILL")
      await killed.exited
      await example.run("gc")
      if ((await example.run("ps")) !== "") await example.run("rm", "web") // the container was complete
      expectUnchanged(before, await example.host.snapshot(), isAllocationTrace)
      expect(await namesIn(example, "/run/libcni-runtime")).toEqual(expect.not.arrayContaining(["web"]))
    }
  },
)

test.each(engineNames)(
  "examples/multus attaches a container to two networks, checks and detaches it on %s",
  async (engine) => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    const bin = consumer.file(`bin-${engine.replace(" ", "-")}`)
    await mkdir(bin, { recursive: true })
    await writeFile(`${bin}/multus`, `#!/bin/sh\nexec ${engines[engine]} ${consumer.file("multus.mjs")}\n`)
    await chmod(`${bin}/multus`, 0o755)
    const ipam = (subnet: string) => ({ type: "host-local", ranges: [[{ subnet }]] })
    const delegates = [
      { type: "bridge", bridge: "several0", ipam: ipam("10.31.0.0/16") },
      { type: "ptp", ipam: ipam("10.32.0.0/16") },
    ]
    const call = async (command: string, plugins: readonly object[], more: object = {}) => {
      const names = { CNI_CONTAINERID: "c1", CNI_NETNS: pod.path, CNI_IFNAME: "eth0" }
      const env = { PATH: process.env.PATH ?? "", CNI_COMMAND: command, CNI_PATH: `${bin}:${builtPlugins}`, ...names }
      const input = JSON.stringify({
        cniVersion: "1.1.0",
        name: "several",
        type: "multus",
        delegates: plugins,
        ...more,
      })
      return await host.tryExec(`${bin}/multus`, [], { env, input })
    }
    const links = async () => (await pod.json<{ ifname: string }[]>("ip", ["-j", "link"])).map(({ ifname }) => ifname)
    const added = await call("ADD", delegates)
    expect(added).toMatchObject({ exitCode: 0, stderr: "" })
    const prevResult = JSON.parse(added.stdout)
    expect(prevResult.ips.map(({ address }: { address: string }) => address)).toEqual(["10.31.0.2/16", "10.32.0.2/16"])
    for (const { interface: index, address } of prevResult.ips) {
      const name = prevResult.interfaces[index].name
      expect((await pod.exec("ip", ["-o", "address", "show", name])).stdout).toContain(address)
    }
    expect(await links()).toEqual(["lo", "eth0", "net1"])
    expect(await call("DEL", delegates, { prevResult })).toMatchObject({ exitCode: 0, stdout: "" })
    expect(await links()).toEqual(["lo"])
    const failing = await call("ADD", [...delegates, { type: "absent" }])
    expect(failing.exitCode).toBe(1)
    expect(JSON.parse(failing.stdout)).toMatchObject({
      cniVersion: "1.1.0",
      code: 999,
      msg: expect.stringContaining("absent"),
    })
    expect(await links()).toEqual(["lo"])
    expect(JSON.parse((await call("ADD", [])).stdout)).toMatchObject({ code: 7 })
    expect(JSON.parse((await call("VERSION", [])).stdout).supportedVersions).toContain("1.1.0")
    expect((await call("STATUS", delegates)).exitCode).toBe(0)
    const valid = { "cni.dev/valid-attachments": [] }
    expect(await call("GC", delegates, valid)).toMatchObject({ exitCode: 0 })
    const left = (await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])).length
    expect(left).toBe(0)
  },
)
