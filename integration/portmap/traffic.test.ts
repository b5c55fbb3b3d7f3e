import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { askEcho, EchoPeer, expectNoEcho, outside, ruleBackends, succeed, type Transport } from "../lab/mod.ts"
import { hostAddresses, type MappedPod, PortmapLab } from "./portmap-lab.ts"

const transports: readonly Transport[] = ["tcp", "udp"]
const { ip, ip6, gateway, gateway6 } = hostAddresses

/** Connections: the client, the address of the host, and the source address that the container sees. */
const ways = [
  { from: "outside", to: ip, seen: outside.ip },
  { from: "outside", to: ip6, seen: outside.ip6 },
  { from: "host", to: ip, seen: ip },
  { from: "host", to: gateway, seen: gateway },
  { from: "host", to: "127.0.0.1", seen: gateway },
  { from: "host", to: "127.9.8.7", seen: gateway },
  { from: "host", to: ip6, seen: ip6 },
  { from: "pod", to: ip, seen: gateway },
  { from: "pod", to: gateway, seen: gateway },
  { from: "pod", to: ip6, seen: gateway6 },
  { from: "neighbour", to: ip, seen: gateway },
  { from: "neighbour", to: gateway, seen: gateway },
  { from: "neighbour", to: ip6, seen: gateway6 },
] as const

describe.each(ruleBackends)("by $name, ports 8080 and, of one address only, 9090 and 9091", (backend) => {
  const resources = new AsyncDisposableStack()
  let lab: PortmapLab
  let pod: MappedPod
  let neighbour: MappedPod

  beforeAll(async () => {
    lab = resources.use(await PortmapLab.create(backend))
    pod = await lab.addPod()
    neighbour = await lab.addPod()
    const { port: containerPort } = resources.use(await EchoPeer.start(pod.namespace))
    const mappings = transports.flatMap((protocol) => [
      { hostPort: 8080, containerPort, protocol },
      { hostPort: 9090, containerPort, protocol, hostIP: ip },
      { hostPort: 9091, containerPort, protocol, hostIP: ip6 },
      { hostPort: 9092, containerPort, protocol, hostIP: "127.0.0.1" },
      { hostPort: 9093, containerPort, protocol, hostIP: "0.0.0.0" },
    ])
    await succeed(pod.map(mappings))
  })
  afterAll(() => resources.disposeAsync())

  const namespaceOf = (who: (typeof ways)[number]["from"]) =>
    ({ outside: lab.outside, host: lab.host, pod: pod.namespace, neighbour: neighbour.namespace })[who]

  test.each(ways)("$from reaches the container by $to, and is seen as $seen", async ({ from, to, seen }) => {
    for (const transport of transports) {
      const reply = await askEcho(namespaceOf(from), { transport, address: to, port: 8080 })
      expect(reply.from.address).toBe(seen)
    }
  })

  test.each([
    { port: 9090, on: ip, off: [ip6, "127.0.0.1", gateway] },
    { port: 9091, on: ip6, off: [ip] },
    { port: 9092, on: "127.0.0.1", off: [ip] },
    { port: 9093, on: ip, off: [ip6] },
  ])("port $port leads to the container at $on, and not at other addresses", async ({ port, on, off }) => {
    const from = lab.host
    for (const transport of transports) await askEcho(from, { transport, address: on, port })
    for (const address of off) await expectNoEcho(from, { transport: "tcp", address, port })
  })

  test("traffic to that port of other hosts goes where it is sent (GHSA-jv3w-x3r3-g6rm)", async () => {
    await using beyond = await EchoPeer.start(lab.outside, { port: 8080 })
    for (const address of [outside.ip, outside.ip6]) {
      await lab.outside.exec("ip", ["route", "replace", "10.22.0.0/16", "via", ip])
      await lab.outside.exec("ip", ["-6", "route", "replace", "fd00:22::/64", "via", ip6])
      const reply = await askEcho(pod.namespace, { transport: "tcp", address, port: beyond.port })
      expect(reply.to.address).toBe(address)
    }
  })
})
