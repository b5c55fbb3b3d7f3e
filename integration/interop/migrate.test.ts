/** Follows the section "Migrate" of docs/install.md literally, on nodes with containers of podman and containerd. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { dirname, join } from "node:path"
import { builtPlugins, EchoPeer, Namespace, outside, programEnv, scaleTimeout, uplink } from "../lab/mod.ts"
import { FlowMeter, type Flows } from "../reconcile/listener-lab.ts"
import { Page } from "../release/page.ts"
import { nameServer } from "./busybox.ts"
import { binDir, Containerd } from "./containerd.ts"
import { containerdNetwork } from "./networks.ts"
import { Podman } from "./podman.ts"
import { confDir, type RuntimeHost } from "./runtime-host.ts"

/** The number of containers that the Go plugins attach. The plugins of this suite attach a third as many. */
const COUNT = 30
const tool = join(builtPlugins, "../cni")

let page: Page
let meter: FlowMeter
beforeAll(async () => {
  page = await Page.read("docs/install.md", "Migrate")
  meter = await FlowMeter.build()
})
afterAll(() => meter[Symbol.asyncDispose]())

class InHost extends Namespace {
  readonly #host: RuntimeHost
  readonly #file: string

  constructor(host: RuntimeHost, file: string) {
    super(file.slice(file.lastIndexOf("/") + 1))
    this.#host = host
    this.#file = file
  }

  /** Enters only the network namespace, because in another process tree the program would not end with its parent. */
  commandLine(command: readonly string[]): string[] {
    const file = this.#host.file(this.#file.replace(/^\/var\/run/, "/run"))
    return [Bun.which("nsenter") ?? "nsenter", `--net=${file}`, "--", ...command]
  }
}

/** Functions that start and end containers by name, the same for each runtime. */
interface Runtime {
  readonly host: RuntimeHost
  /** Starts a container. If `hostPort` is given, it publishes the container's port 81. */
  start(name: string, hostPort?: number): Promise<unknown>
  remove(names: readonly string[]): Promise<unknown>
}

/**
 * Installs Debian's Go plugins where runtimes and `cni` search them. Mounts the machine's plugin directory read-only.
 */
async function useGoPlugins(host: RuntimeHost): Promise<void> {
  await host.exec("sh", ["-ec", `cp /usr/lib/cni/* ${binDir}/; mount --bind -o ro /usr/lib/cni /usr/lib/cni`])
  await host.exec("mount", ["-t", "tmpfs", "cni-test", "/etc/containerd"])
  const places = `bin_dir = "${binDir}"\nconf_dir = "${confDir}"`
  await host.write("/etc/containerd/config.toml", `[plugins."io.containerd.grpc.v1.cri".cni]\n${places}\n`)
}

/** Connects another machine, which answers UDP, through an uplink. */
async function connectOutside(host: RuntimeHost): Promise<{ other: InHost; peer: EchoPeer }> {
  const script = `
    ip netns add outside
    ip link add up0 type veth peer name eth0 netns outside
    ip address add ${uplink.ip}/24 dev up0 && ip link set up0 up
    ip -n outside address add ${outside.ip}/24 dev eth0
    ip -n outside link set lo up && ip -n outside link set eth0 up`
  await host.exec("sh", ["-ec", script])
  const other = new InHost(host, "/run/netns/outside")
  return { other, peer: await EchoPeer.start(other, { port: 9000 }) }
}

/** Counts flows during the page's commands: from a container to the other machine, and from that machine to a port. */
async function counting(runtime: Runtime, other: InHost, commands: string): Promise<Flows[]> {
  const { host } = runtime
  const pods = JSON.parse((await host.exec(tool, ["ps", "-o", "json"])).stdout) as {
    ports: { hostPort: number; containerPort: number }[]
    netns: string
  }[]
  const [first, second] = pods.filter(({ ports }) => ports.length > 0)
  if (!first || !second) throw new Error("two containers with ports are needed")
  const hostPort = second.ports.find(({ containerPort }) => containerPort === 81)?.hostPort ?? 0
  await using _server = await EchoPeer.start(new InHost(host, second.netns), { port: 81 })
  const out = { transport: "udp", address: outside.ip, port: 9000 } as const
  const into = { transport: "tcp", address: uplink.ip, port: hostPort } as const
  let inner: Flows | undefined
  const outer = await meter.during(new InHost(host, first.netns), out, async () => {
    inner = await meter.during(other, into, () => follow(host, commands))
  })
  return [outer, ...(inner ? [inner] : [])]
}

/** Runs commands of the page in a shell. Throws the commands' output if they fail. */
async function follow(host: RuntimeHost, commands: string): Promise<void> {
  const env = { ...programEnv, PATH: `${dirname(tool)}:${programEnv.PATH}` }
  await host.exec("bash", ["-ec", commands], { env })
}

/** Returns the state of the host, except files that host-local and tuning's first container keep on purpose. */
async function stateOf(host: RuntimeHost): Promise<string> {
  const script = `
    nft list ruleset | sed 's/counter packets [0-9]* bytes [0-9]*//'
    ip -o link | cut -d: -f2
    find /run/netns ${binDir} | sort; find /run/cni -type f | sort
    find /var/lib/cni -type f ! -name lock ! -name 'last_reserved_ip.*' ! -path '*/.index/*' | sort`
  return (await host.exec("sh", ["-c", script])).stdout
}

async function goThere(runtime: Runtime): Promise<void> {
  const { host } = runtime
  const { other, peer } = await connectOutside(host)
  await using _ = peer
  await runtime.start("warm-up", 8000)
  await runtime.remove(["warm-up"])
  const before = await stateOf(host)
  const names = (kind: string, count: number) => Array.from({ length: count }, (_, at) => `${kind}${at}`)
  const [theirs, ours] = [names("theirs", COUNT), names("ours", COUNT / 3)]
  for (const [at, name] of theirs.entries()) await runtime.start(name, 8001 + at)

  expect(await counting(runtime, other, page.commands("switch"))).toMatchObject([{ lost: 0 }, { lost: 0 }])
  await runtime.remove(theirs.slice(0, COUNT / 2))
  for (const [at, name] of ours.entries()) await runtime.start(name, 8101 + at)
  expect((await host.exec("nft", ["list", "tables"])).stdout).toContain("cni_hostports")

  expect(await counting(runtime, other, page.commands("back"))).toMatchObject([{ lost: 0 }, { lost: 0 }])
  expect((await host.exec("nft", ["list", "tables"])).stdout).not.toContain("cni_")
  await runtime.remove([...theirs.slice(COUNT / 2), ...ours])
  await follow(host, page.commands("end"))
  expect(await stateOf(host)).toBe(before)
  expect(page.unread()).toEqual([])
}

test(
  "containers of podman: no flow is lost by the switch and the way back, and nothing is left",
  async () => {
    await using podman = await Podman.create(binDir, useGoPlugins)
    await goThere({
      host: podman.host,
      start: (name, hostPort) =>
        podman.start(name, nameServer, ...(hostPort === undefined ? [] : ["--publish", `${hostPort}:81`])),
      remove: (names) => podman.remove(...names),
    })
  },
  scaleTimeout(1_800_000),
)

test(
  "pods of containerd: no flow is lost by the switch and the way back, and nothing is left",
  async () => {
    const network = { ...containerdNetwork, plugins: [...containerdNetwork.plugins, { type: "firewall" }] }
    await using containerd = await Containerd.create(network, useGoPlugins)
    const ids = new Map<string, string>()
    await goThere({
      host: containerd.host,
      start: async (name, hostPort) => {
        const ports = hostPort === undefined ? {} : { portMappings: [{ containerPort: 81, hostPort }] }
        ids.set(name, await containerd.runPod(name, ports))
      },
      remove: async (names) => {
        for (const name of names) {
          const id = ids.get(name) ?? ""
          await containerd.stopPod(id)
          await containerd.removePod(id)
        }
      },
    })
  },
  scaleTimeout(1_800_000),
)
