import { expect, test } from "bun:test"
import { expectAnswer, type FirewalledPod, FirewallLab } from "../firewall/firewall-lab.ts"
import {
  askEcho,
  builtPlugins,
  type ContainerNamespace,
  chooseIptables,
  EchoPeer,
  expectUnchanged,
  HostNamespace,
  isAllocationTrace,
  type PluginResult,
  programEnv,
  ruleBackends,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
} from "../lab/mod.ts"
import { nerdctlNetwork } from "./networks.ts"

/** Debian's Go plugin, 1.1.1, which does not support policy `isolated`. */
const theirs = "/usr/lib/cni/firewall"

/** Returns the configuration in a version that both suites support. */
function keysFor(pod: FirewalledPod): object {
  return { cniVersion: "1.0.0", prevResult: { ...pod.result, cniVersion: "1.0.0" } }
}

for (const backend of ruleBackends.slice(1)) {
  const create = () => FirewallLab.create(backend)
  const policy = "same-bridge"

  test(`${backend.name}: both suites write the same rules`, async () => {
    const rules: string[] = []
    for (const bin of [undefined, theirs]) {
      await using lab = await create()
      for (const network of [1, 2]) {
        const pod = await lab.connectPod({ network, policy })
        await succeed(pod.firewall.run("ADD", keysFor(pod), bin ? { bin } : {}))
      }
      const lines = (await lab.iptables()).split("\n").filter((line) => !/^[#:]|OWNERS/.test(line))
      // From 1.7 on, the comments of the Go plugin name both policies.
      rules.push(lines.join("\n").replaceAll("same-bridge|isolated", "same-bridge"))
    }
    expect(rules[0]).toBe(rules[1] ?? "")
  })

  test(`${backend.name}: what Go's ADD has made our DEL removes, and the policy with the last container; our CHECK passes for it`, async () => {
    await using lab = await create()
    const pods = [await lab.connectPod({ policy }), await lab.connectPod({ policy })]
    for (const pod of pods) await succeed(pod.firewall.run("ADD", keysFor(pod), { bin: theirs }))
    for (const pod of pods) expect(await pod.firewall.run("CHECK", keysFor(pod))).toMatchObject({ exitCode: 0 })
    const own = await lab.addPod({ policy })
    for (const pod of pods) {
      expect(await lab.iptables()).toContain(`-s ${pod.ip}/32 -j ACCEPT`)
      await succeed(pod.firewall.run("DEL", { ...keysFor(pod), backend: undefined }))
      expect(await lab.iptables()).not.toContain(pod.ip)
      expect(await lab.iptables()).toContain("-o br1")
    }
    await own.firewall.del()
    expect(await lab.iptables()).not.toContain("-o br1")
  })

  test(`${backend.name}: what our ADD has made Go's CHECK passes and Go's DEL removes; only a label stays, until our GC`, async () => {
    await using lab = await create()
    const pod = await lab.connectPod({ policy })
    await succeed(pod.firewall.run("ADD", keysFor(pod)))
    await succeed(pod.firewall.run("CHECK", keysFor(pod), { bin: theirs }))
    await succeed(pod.firewall.run("DEL", keysFor(pod), { bin: theirs }))
    const left = (await lab.iptables()).split("\n").filter((line) => line.includes(pod.ip))
    expect(left).toEqual([expect.stringContaining(`-A CNI-FIREWALL-OWNERS -s ${pod.ip}/32`)])
    await succeed(pod.firewall.run("GC", { "cni.dev/valid-attachments": [], prevResult: undefined }))
    expect(await lab.iptables()).not.toContain(pod.ip)
  })
}

test("nftables, the default: Go's CHECK of what our ADD has made fails, and Go's DEL leaves the address let through, until our GC", async () => {
  await using lab = await FirewallLab.create({ ...ruleBackends[0], iptables: "nf_tables" })
  const pod = await lab.addPod()
  const { exitCode, stdout } = await pod.firewall.run("CHECK", keysFor(pod), { bin: theirs })
  expect({ exitCode, stdout }).toMatchObject({ exitCode: 1 })
  await succeed(pod.firewall.run("DEL", keysFor(pod), { bin: theirs }))
  expect(await lab.nftables()).toContain(`elements = { ${pod.ip} comment "${pod.owner()}" }`)
  await succeed(pod.firewall.run("GC", { "cni.dev/valid-attachments": [], prevResult: undefined }))
  expect(await lab.nftables()).not.toContain("cni_firewall")
  expect(await lab.iptables()).not.toContain("0x1000")
})

test("what Go's ADD has made by iptables is deleted on a node whose configuration says nothing, and policies of ours hold beside it", async () => {
  await using lab = await FirewallLab.create({ ...ruleBackends[0], iptables: "nf_tables" })
  const policy = "same-bridge"
  const [old, pod] = [await lab.connectPod({ policy }), await lab.addPod({ network: 2, policy })]
  await succeed(old.firewall.run("ADD", keysFor(old), { bin: theirs }))
  await expectAnswer(pod.namespace, "10.2.0.1")
  await old.firewall.del()
  expect(await lab.iptables()).not.toMatch(/10\.1\.0|br1/)
})

class Node implements AsyncDisposable {
  readonly host: HostNamespace
  readonly #conf: TemporaryDirectory

  private constructor(host: HostNamespace, conf: TemporaryDirectory) {
    this.host = host
    this.#conf = conf
  }

  static async create(): Promise<Node> {
    const conf = await TemporaryDirectory.create("cni-nerdctl")
    await Bun.write(conf.join("nerdctl-web.conflist"), JSON.stringify(nerdctlNetwork))
    return new Node(await HostNamespace.create(), conf)
  }

  /** Runs `cni VERB web NETNS` with one published port. */
  async cni(verb: "add" | "check" | "del", pod: ContainerNamespace, hostPort: number): Promise<string> {
    const portMappings = [{ hostPort, containerPort: 80, protocol: "tcp", hostIP: "0.0.0.0" }]
    const env = { ...programEnv, CAP_ARGS: JSON.stringify({ portMappings }) }
    const places = ["--bin-dir", builtPlugins, "--conf-dir", this.#conf.path, "--json"]
    return (await this.host.exec(`${builtPlugins}/../cni`, [verb, "web", pod.path, ...places], { env })).stdout
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
    await this.#conf[Symbol.asyncDispose]()
  }
}

test("nerdctl's network, bridge, portmap, firewall and tuning, runs on these executables alone: traffic, CHECK, DEL", async () => {
  await using node = await Node.create()
  const { host } = node
  await chooseIptables(host, "none")
  const [first, second] = [await host.addContainer(), await host.addContainer()]
  await node.cni("add", first, 8080)
  await node.cni("del", first, 8080)
  const before = await takeSnapshot(host)
  const result = JSON.parse(await node.cni("add", first, 8080)) as PluginResult
  await node.cni("add", second, 8081)
  await using _server = await EchoPeer.start(first, { port: 80 })
  const address = result.ips[0]?.address.replace(/\/.*/, "") ?? ""
  await askEcho(host, { transport: "tcp", address: "127.0.0.1", port: 8080 })
  await askEcho(second, { transport: "tcp", address, port: 80 })
  await askEcho(second, { transport: "tcp", address: "10.4.1.1", port: 8080 })
  await askEcho(first, { transport: "tcp", address: "10.4.1.1", port: 8080 })
  await node.cni("check", first, 8080)
  await node.cni("del", first, 8080)
  await node.cni("del", second, 8081)
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})
