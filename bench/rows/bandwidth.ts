import { type ContainerNamespace, HostNamespace, pluginEnv, Station } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"

/** The numbers of limited containers on the host before the measurement. */
const fillings = [0, 1_000] as const

/** Returns the configuration of limits in both directions, in the newest version that both suites support. */
function bandwidthConfig(netns: string) {
  return {
    cniVersion: "1.0.0",
    name: "bench",
    type: "bandwidth",
    runtimeConfig: {
      bandwidth: { ingressRate: 50_000_000, ingressBurst: 8_000_000, egressRate: 50_000_000, egressBurst: 8_000_000 },
    },
    prevResult: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "bench0" }, { name: "eth0", sandbox: netns }],
      ips: [{ address: "10.88.0.2/16", interface: 1 }],
    },
  }
}

/** Returns the limits that a suite creates for this many containers, as lines for `ip -batch` and `tc -batch`. */
function limitOthers(count: number): { links: string; limits: string } {
  const indexes = Array.from({ length: count }, (_, index) => index)
  const ends = indexes.map((index) => ({ end: `other${index}`, ifb: `bwpother${index}` }))
  const tbf = "root handle 1: tbf rate 50mbit burst 1000000 limit 1156250"
  const links = ends.map(
    ({ end, ifb }) => `link add ${end} up type veth peer name x${end}\nlink add ${ifb} up type ifb\n`,
  )
  const limits = ends.map(
    ({ end, ifb }) => `qdisc add dev ${end} ${tbf}\nqdisc add dev ${ifb} ${tbf}\nqdisc add dev ${end} ingress\n`,
  )
  return { links: links.join(""), limits: limits.join("") }
}

async function startBandwidth(suite: Suite, count: number): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const { links, limits } = limitOthers(count)
  await host.exec("ip", ["-batch", "-"], { input: links })
  await host.exec("tc", ["-batch", "-"], { input: limits })
  const station = stack.use(Station.open(host))
  const bin = pluginPath(suite, "bandwidth")
  const input = JSON.stringify(bandwidthConfig(pod.path))
  const call = { bin, netns: pod.path, ifName: "eth0", path: suite.directory }
  const run = (verb: "ADD" | "DEL", containerId: string) =>
    station.time({ command: [bin], env: pluginEnv({ ...call, verb, containerId }), input })
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const containerId = `bench-${++rounds}`
      await connect(host, pod) // a new pair in each round, because the Go plugin leaves its qdiscs on the host's end
      const sample = { ADD: await run("ADD", containerId), DEL: await run("DEL", containerId) }
      await host.exec("ip", ["link", "del", "bench0"])
      return sample
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

async function connect(host: HostNamespace, pod: ContainerNamespace): Promise<void> {
  const pair = ["bench0", "up", "type", "veth", "peer", "name", "eth0", "netns", pod.name]
  await host.exec("ip", ["link", "add", ...pair])
}

const numbers = new Intl.NumberFormat("en")

export const withLimited = (suite: Suite["name"], count: number) => `${suite}, ${numbers.format(count)} limited`

/** Returns the scenario of a container that is limited in both directions, alone and beside a thousand of these. */
export function bandwidths(suites: readonly Suite[]): Scenario[] {
  const filled = suites.flatMap((suite) =>
    fillings.map((count) => [withLimited(suite.name, count), () => startBandwidth(suite, count)] as const),
  )
  return [
    {
      name: "bandwidth",
      steps: ["ADD", "DEL"],
      contenders: Object.fromEntries(filled),
      baseline: withLimited("Go", 0),
    },
  ]
}
