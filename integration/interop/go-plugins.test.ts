import { expect, test } from "bun:test"
import { join } from "node:path"
import {
  askEcho,
  builtPlugins,
  type Change,
  type ContainerNamespace,
  EchoPeer,
  expectUnchanged,
  HostNamespace,
  isAllocationTrace,
  type PluginResult,
  ping,
  programEnv,
  TemporaryDirectory,
  takeSnapshot,
} from "../lab/mod.ts"
import { containerdNetwork } from "./networks.ts"

/** The directory of Debian's Go plugins, 1.1.1, which support versions up to 1.0.0. */
const theirs = "/usr/lib/cni"
const ours = builtPlugins
const tool = join(builtPlugins, "../cni")
const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }]

/** A node with one network, whose plugins a test can exchange while pods run. */
class Node implements AsyncDisposable {
  readonly host: HostNamespace
  readonly #conf: TemporaryDirectory

  private constructor(host: HostNamespace, conf: TemporaryDirectory) {
    this.host = host
    this.#conf = conf
  }

  static async create(network: object = containerdNetwork): Promise<Node> {
    const conf = await TemporaryDirectory.create("cni-interop")
    // With `cniVersions` the library would choose 1.1.0, which these Go plugins do not support.
    await Bun.write(conf.join("10-pods.conflist"), JSON.stringify({ ...network, cniVersions: undefined }))
    return new Node(await HostNamespace.create(), conf)
  }

  /** Runs `cni VERB pods NETNS` with the plugins in `path`. The command calls the runtime library. */
  async cni(verb: string, path: string, pod: ContainerNamespace, ports: object[] = portMappings): Promise<string> {
    const env = { ...programEnv, CAP_ARGS: JSON.stringify({ portMappings: ports }) }
    const places = ["--bin-dir", path, "--conf-dir", this.#conf.path, "--json"]
    return (await this.host.exec(tool, [verb, "pods", pod.path, ...places], { env })).stdout
  }

  async add(path: string, pod: ContainerNamespace, ports: object[] = portMappings): Promise<PluginResult> {
    return JSON.parse(await this.cni("add", path, pod, ports)) as PluginResult
  }

  async answers(pod: ContainerNamespace): Promise<boolean> {
    await using _server = await EchoPeer.start(pod, { port: 80 })
    return (await askEcho(this.host, { transport: "tcp", address: "10.85.0.1", port: 8080 })) !== undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
    await this.#conf[Symbol.asyncDispose]()
  }
}

/** Returns the parts of a result that are the same in each ADD. */
function comparable({ interfaces, ips, routes }: PluginResult): object {
  const links = interfaces.map(({ name, sandbox }) => ({
    name: name.replace(/^veth.*/, "veth"),
    inside: sandbox !== undefined,
  }))
  return { links, ips: ips.length, gateway: ips[0]?.gateway, routes }
}

test("Debian's Go plugins run under the runtime library: ADD, CHECK, DEL", async () => {
  await using node = await Node.create()
  const pod = await node.host.addContainer()
  const result = await node.add(theirs, pod)
  expect(result.ips).toMatchObject([{ address: "10.85.0.2/16", gateway: "10.85.0.1" }])
  expect(await node.answers(pod)).toBeTrue()
  // The Go plugin 1.1.1 expects IPv6 rules for each mapped port.
  await node.cni("check", theirs, pod, [])
  await node.cni("del", theirs, pod)
  await expect(node.cni("del", theirs, pod)).rejects.toThrow("it is attached to no network")
  expect(await node.host.json("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
  await using other = await Node.create()
  expect(comparable(await other.add(ours, await other.host.addContainer()))).toEqual(comparable(result))
})

test("chains may be mixed: either portmap maps ports for the other's bridge", async () => {
  for (const [first, second] of [
    [ours, theirs],
    [theirs, ours],
  ] as const) {
    await using mixed = await TemporaryDirectory.create("cni-interop")
    await using node = await Node.create()
    for (const name of ["bridge", "host-local", "tuning"]) await Bun.$`ln -s ${first}/${name} ${mixed.path}/`.quiet()
    await Bun.$`ln -s ${second}/portmap ${mixed.path}/`.quiet()
    const pod = await node.host.addContainer()
    await node.add(mixed.path, pod)
    expect(await node.answers(pod)).toBeTrue()
    await node.cni("check", mixed.path, pod, second === ours ? portMappings : [])
    await node.cni("del", mixed.path, pod)
    expect(await node.host.json("ip", ["-j", "link", "show", "type", "veth"])).toEqual([])
  }
})

test("a node is switched with its pods running: what the Go plugins made, these take away", async () => {
  await using node = await Node.create()
  const warmUp = await node.host.addContainer()
  for (const path of [theirs, ours]) {
    await node.add(path, warmUp)
    await node.cni("del", path, warmUp)
  }
  const before = await takeSnapshot(node.host)
  const pod = await node.host.addContainer()
  await node.add(theirs, pod)
  const young = await node.host.addContainer()
  expect((await node.add(ours, young, [])).ips).toMatchObject([{ address: "10.85.0.5/16" }])
  expect(await ping(pod, "10.85.0.5")).toBeTrue()
  expect(await node.answers(pod)).toBeTrue()
  await node.cni("del", ours, pod)
  await node.cni("del", ours, young)
  expectUnchanged(before, await takeSnapshot(node.host), isAllocationTrace)
})

test("the way back is open while both suites write the same rules: backend iptables", async () => {
  const [bridge, tuning, portmap] = containerdNetwork.plugins
  const plugins = [{ ...bridge, ipMasqBackend: "iptables" }, tuning, { ...portmap, backend: "iptables" }]
  await using node = await Node.create({ ...containerdNetwork, plugins })
  const warmUp = await node.host.addContainer()
  for (const path of [ours, theirs]) {
    await node.add(path, warmUp)
    await node.cni("del", path, warmUp)
  }
  const before = await takeSnapshot(node.host)
  const pod = await node.host.addContainer()
  await node.add(ours, pod)
  expect(await node.answers(pod)).toBeTrue()
  await node.cni("del", theirs, pod)
  // The Go plugins do not delete tuning's records and the notes about rules. Notes of a deleted container have no
  // effect.
  const isRecord = ({ line }: Change) => /^\/run\/cni\/(tuning\/pods:|rules\/)/.test(line)
  // DEL of the Go plugin leaves `route_localnet` enabled. It does not know the guard of 127.0.0.1, which therefore
  // stays.
  const isGuard = ({ line }: Change) => /^(table|set|chain|rule) ip cni_hostports( raw| localnet_guarded|$)/.test(line)
  const isLeft = (change: Change) => isAllocationTrace(change) || isRecord(change) || isGuard(change)
  expectUnchanged(before, await takeSnapshot(node.host), isLeft)
})
