import { type ContainerNamespace, connect, Station } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { programs } from "../programs.ts"
import { contendersOf, type Suite } from "../suites.ts"
import { bridgeConfig } from "./bridge.ts"
import { type Filling, fillFirewall, fillMasquerade, fillPortmap } from "./filling.ts"
import { type ChainOf, Node } from "./node.ts"

/** The numbers of other containers' mappings beside the measured port. */
export const mappings = [20, 1_000, 4_000] as const

/** The number of other masqueraded containers on a full node. */
const masqueraded = 250

/** The addresses at both ends of the link between the host and a machine outside. */
const cable = { host: "203.0.113.1", outside: "203.0.113.2" } as const

/** The server's port, and the first published port of the host. */
const port = { server: 5000, host: 8080 } as const

/** Returns the plugins of a pod with a published port, with or without firewall. */
function chainOf(hasFirewall: boolean): ChainOf {
  return (dataDir, pod) => {
    const shared = { cniVersion: "1.0.0", name: "bench" }
    const mapping = { hostPort: port.host + pod, containerPort: port.server, protocol: "tcp" }
    return [
      bridgeConfig(true, dataDir),
      ...(hasFirewall ? [{ ...shared, type: "firewall" }] : []),
      { ...shared, type: "portmap", runtimeConfig: { portMappings: [mapping] } },
    ]
  }
}

/** The traffic between two ends, as arguments of traffic.c. */
interface Traffic {
  readonly what: "connections" | "trips" | "megabytes"
  readonly count: number
  readonly from: "outside" | "pod"
  /** The destination. "port" is a port of the host that is published for the pod. */
  readonly to: "port" | "outside" | "neighbour"
}

const titles = { connections: "connections", trips: "round trips", megabytes: "MB" } as const
const numbers = new Intl.NumberFormat("en")

const titleOf = ({ what, count }: Traffic) => `${numbers.format(count)} ${titles[what]}`

/** Starts a suite's host with two pods, many simulated ones and a machine outside. Each step is one kind of traffic. */
async function startPath(suite: Suite, hasFirewall: boolean, fill: Filling, steps: Steps): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const node = stack.use(await Node.open(suite, chainOf(hasFirewall)))
  const outside = await node.host.addContainer("outside")
  await connect(
    { namespace: node.host, link: "uplink", addresses: [`${cable.host}/24`] },
    { namespace: outside, link: "eth0", addresses: [`${cable.outside}/24`] },
  )
  await node.populate(1)
  await fill(node.host, suite)
  const [pod, neighbour] = [await attach(node, 2), await attach(node, 3)]
  const servers = {
    port: { path: pod.namespace.path, address: cable.host },
    outside: { path: outside.path, address: cable.outside },
    neighbour: { path: neighbour.namespace.path, address: neighbour.address },
  }
  const stations = { outside: stack.use(Station.open(outside)), pod: stack.use(Station.open(pod.namespace)) }
  const time = ({ what, count, from, to }: Traffic) => {
    const { path, address } = servers[to]
    const at = to === "port" ? port.host + 2 : port.server
    const command = [programs.traffic, what, path, port.server, address, at, count].map(String)
    return stations[from].time({ command, env: {}, input: "" })
  }
  const kept = stack.move()
  return {
    async round() {
      const samples: Record<string, Awaited<ReturnType<typeof time>>> = {}
      for (const [step, traffic] of steps) samples[step] = await time(traffic)
      return samples
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

async function attach(node: Node, index: number): Promise<{ namespace: ContainerNamespace; address: string }> {
  const namespace = await node.host.addContainer()
  const [added = []] = (
    await node.station.run([node.adds({ index, containerId: `pod-${index}`, netns: namespace.path })])
  ).outcomes
  const result: { ips: { address: string }[] } = JSON.parse(added.at(-1)?.stdout ?? "")
  return { namespace, address: result.ips[0]?.address.replace(/\/.*/, "") ?? "" }
}

type Steps = readonly (readonly [title: string, traffic: Traffic])[]

function named(prefix: string, traffics: readonly Traffic[]): (readonly [string, Traffic])[] {
  return traffics.map((traffic) => [`${prefix}${titleOf(traffic)}`, traffic])
}

/** Returns the traffic that measures latency and throughput between two ends. */
const bothDirections = (from: Traffic["from"], to: Traffic["to"]): Traffic[] => [
  { what: "trips", count: 2_000, from, to },
  { what: "megabytes", count: 200, from, to },
]
const toPort: Traffic = { what: "connections", count: 400, from: "outside", to: "port" }
const toOutside: Traffic = { what: "connections", count: 400, from: "pod", to: "outside" }

const published = { name: "data path, published port beside other mappings,", steps: named("", [toPort]) }
const masquerade = { name: `data path, masquerade beside ${masqueraded} containers,`, steps: named("", [toOutside]) }
const everyPath = named("pod to pod, ", bothDirections("pod", "neighbour"))
  .concat(named("pod to outside, ", bothDirections("pod", "outside")))
  .concat(named("published port, ", [toPort, ...bothDirections("outside", "port")]))

/** The kinds of paths that packets take: without firewall, and with firewall beside many accepted containers. */
const paths = [
  { name: "data path,", hasFirewall: false, fill: fillPortmap(20) },
  { name: "data path, firewall beside 20 containers,", hasFirewall: true, fill: fillFirewall(20) },
  { name: "data path, firewall beside 110 containers,", hasFirewall: true, fill: fillFirewall(110) },
] as const

const rowsOf = (name: string, steps: Steps) => steps.map(([step]) => `${name} ${step}`)
export const [publishedRow = ""] = rowsOf(published.name, published.steps)
export const [masqueradeRow = ""] = rowsOf(masquerade.name, masquerade.steps)
export const pathRows: readonly string[] = paths.flatMap(({ name }) => rowsOf(name, everyPath))

export const besideMappings = (suite: Suite["name"], count: number) => `${suite}, beside ${numbers.format(count)}`

/** Returns the scenarios of the rules' cost for packets: new connections, round trips and throughput. */
export function traffics(suites: readonly Suite[]): Scenario[] {
  const scenario = (name: string, steps: Steps, hasFirewall: boolean, fill: Filling): Scenario => ({
    name,
    steps: steps.map(([step]) => step),
    contenders: contendersOf(suites, (suite) => startPath(suite, hasFirewall, fill, steps)),
    baseline: "Go",
    patience: 2,
  })
  const besideEach = suites.flatMap((suite) =>
    mappings.map((count) => {
      const start = () => startPath(suite, false, fillPortmap(count), published.steps)
      return [besideMappings(suite.name, count), start] as const
    }),
  )
  return [
    {
      ...scenario(published.name, published.steps, false, fillPortmap(0)),
      contenders: Object.fromEntries(besideEach),
      baseline: besideMappings("Go", 20),
    },
    scenario(masquerade.name, masquerade.steps, false, fillMasquerade(masqueraded)),
    ...paths.map(({ name, hasFirewall, fill }) => scenario(name, everyPath, hasFirewall, fill)),
  ]
}
