import {
  type ContainerNamespace,
  type Feature,
  HostNamespace,
  hasFeature,
  pluginEnv,
  Station,
} from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { contendersOf, pluginPath, type Suite } from "../suites.ts"

interface Alone {
  readonly type: string
  readonly keys?: object
  readonly ifName?: string
  readonly needs?: Feature
  /** Whether the container already has an interface of bridge, whose result the plugin gets. */
  readonly isChained?: true
}

const plugins: readonly Alone[] = [
  { type: "loopback", ifName: "lo" },
  {
    type: "static",
    keys: { ipam: { type: "static", addresses: [{ address: "10.88.0.2/16", gateway: "10.88.0.1" }] } },
  },
  { type: "tuning", keys: { sysctl: { "net.core.somaxconn": "500" }, mtu: 1400 }, isChained: true },
  { type: "vrf", keys: { vrfname: "red" }, needs: "vrf", isChained: true },
]

/** Adds an interface with an address, as bridge does. Returns what bridge would return. */
async function addInterface(host: HostNamespace, pod: ContainerNamespace): Promise<object> {
  const pair = ["veth0", "up", "type", "veth", "peer", "name", "eth0", "netns", pod.name]
  await host.exec("ip", ["link", "add", ...pair])
  await pod.exec("ip", ["address", "add", "10.88.0.2/16", "dev", "eth0"])
  await pod.exec("ip", ["link", "set", "eth0", "up"])
  const interfaces = [{ name: "veth0" }, { name: "eth0", sandbox: pod.path }]
  return { cniVersion: "1.0.0", interfaces, ips: [{ address: "10.88.0.2/16", interface: 1 }] }
}

async function startAlone(suite: Suite, { type, keys, ifName = "eth0", isChained }: Alone): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const station = stack.use(Station.open(host))
  const prevResult = isChained && (await addInterface(host, pod))
  const bin = pluginPath(suite, type)
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "bench", type, ...keys, prevResult })
  const call = { bin, netns: pod.path, ifName, path: suite.directory, containerId: "bench" }
  const time = (verb: "ADD" | "DEL") => station.time({ command: [bin], env: pluginEnv({ ...call, verb }), input })
  const kept = stack.move()
  return {
    round: async () => ({ ADD: await time("ADD"), DEL: await time("DEL") }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

const canRun = ({ needs }: Alone) => needs === undefined || hasFeature(needs)

/** Returns the scenarios of plugins that no other scenario measures, if the kernel supports them. */
export function alones(suites: readonly Suite[]): Scenario[] {
  return plugins.filter(canRun).map((plugin) => ({
    name: plugin.type,
    steps: ["ADD", "DEL"],
    contenders: contendersOf(suites, (suite) => startAlone(suite, plugin)),
    baseline: "Go",
  }))
}

/** Returns the plugins whose features this kernel lacks, which explain missing rows. */
export function leftOutAlone(): string[] {
  return plugins.filter((plugin) => !canRun(plugin)).map(({ type }) => type)
}
