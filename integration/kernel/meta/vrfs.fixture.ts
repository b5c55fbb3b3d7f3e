import { afterAll, afterEach, beforeAll, beforeEach, expect, spyOn } from "bun:test"
import { vrf } from "../../../meta/vrf/main.ts"
import { RouteSocket } from "../../../pkg/netlink/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall } from "../in-process.ts"
import type { Refusals } from "../refusing-kernel.fixture.ts"
import { openVrfSocket, type Tables } from "./vrf-kernel.fixture.ts"

export let host: HostNamespace
export let pod: ContainerNamespace
export const tables: Tables = new Map()
export const refusals: Refusals = new Map()
export const inside = async (script: string) => (await pod.exec("sh", ["-c", script])).stdout

export function configOf(number: number, keys: object = {}) {
  const interfaces = [{ name: `eth${number}`, sandbox: pod.path }]
  const ips = [{ address: `10.${number}.0.2/16`, interface: 0 }]
  const prevResult = { cniVersion: "1.1.0", interfaces, ips, routes: [{ dst: `10.7${number}.0.0/16` }] }
  return { cniVersion: "1.1.0", name: "lab", type: "vrf", vrfname: "red", prevResult, ...keys }
}

export function call(
  verb: ProcessCall["verb"],
  number: number,
  keys: object = {},
  more: Partial<ProcessCall> = {},
): Answer {
  return callPlugin(host, vrf, { verb, config: configOf(number, keys), pod, ifName: `eth${number}`, ...more })
}

export function done(verb: ProcessCall["verb"], number: number, keys: object = {}, more: Partial<ProcessCall> = {}) {
  const answer = call(verb, number, keys, more)
  expect(answer).toMatchObject({ exitCode: 0, log: [] })
  return answer.json
}

/** The VRFs, "red up alias", the interfaces in them, "eth1 red", and the routes that no address has made. */
export async function shown(): Promise<string[]> {
  type Shown = { ifname: string; flags: string[]; master?: string; ifalias?: string; linkinfo?: { info_kind: string } }
  const links = await pod.json<Shown[]>("ip", ["-d", "-j", "link"])
  const lines = links.flatMap(({ ifname, flags, master, ifalias, linkinfo }) => [
    ...(linkinfo?.info_kind === "bridge" ? [`${ifname} ${flags.includes("UP") ? "up" : "down"} ${ifalias}`] : []),
    ...(master ? [`${ifname} in ${master}`] : []),
  ])
  const routes = await inside("ip -4 route show table all")
  const own = routes.split("\n").filter((line) => line !== "" && !/^(local|broadcast)|proto kernel/.test(line))
  return [...lines, ...own.map((line) => line.replace(/ scope link| linkdown/g, "").trim())].sort()
}

export const apart = (n: number) => [
  `10.7${n}.0.0/16 dev eth${n}`,
  `10.8${n}.0.0/16 dev eth${n} table 500`,
  `10.9${n}.0.0/16 dev eth${n} metric 7`,
]
export const inTable = (n: number, table: number) => [
  `10.7${n}.0.0/16 dev eth${n} table ${table}`,
  `10.8${n}.0.0/16 dev eth${n} table 500`,
  `10.9${n}.0.0/16 dev eth${n} table ${table} metric 7`,
]
export const before = [...apart(1), ...apart(2)]

/** Has the tests of a file a container with two interfaces, anew for each of them. */
export function useVrfs(): void {
  const spies: { mockRestore(): void }[] = []
  beforeAll(async () => {
    spies.push(
      spyOn(RouteSocket, "open").mockImplementation(() => openVrfSocket(tables, refusals)),
      spyOn(RouteSocket, "subscribe").mockImplementation((groups) => openVrfSocket(tables, refusals, groups)),
    )
    host = await HostNamespace.create()
    pod = await host.addContainer()
    await inside("sysctl -qw net.ipv6.conf.default.disable_ipv6=1")
  })
  afterAll(async () => {
    for (const spy of spies.splice(0)) spy.mockRestore()
    await host[Symbol.asyncDispose]()
  })
  /**
   * Interfaces with an address, the result's route, one by hand, and one of table 500; number 1 is "eth1" with
   * 10.1.0.2.
   */
  beforeEach(async () => {
    tables.clear()
    const lines = [1, 2].flatMap((n) => [
      `link add eth${n} type veth peer name far${n}`,
      `link set eth${n} up`,
      `link set far${n} up`,
      `address add 10.${n}.0.2/16 dev eth${n}`,
      `route add 10.7${n}.0.0/16 dev eth${n}`,
      `route add 10.9${n}.0.0/16 dev eth${n} metric 7`,
      `route add 10.8${n}.0.0/16 dev eth${n} table 500`,
    ])
    await pod.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  })
  afterEach(async () => {
    const links = await pod.json<{ ifname: string }[]>("ip", ["-j", "link"])
    const lines = links.flatMap(({ ifname }) => (/^(far|red|blue|lan)/.test(ifname) ? `link del ${ifname}\n` : []))
    await pod.exec("ip", ["-batch", "-"], { input: lines.join("") })
  })
}
