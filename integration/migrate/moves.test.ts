/** Tests other features than a bridge with IPv4 masquerading: each network moves here and back while pods run. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { sourcesIn, startFirewalld } from "../firewall/firewalld-lab.ts"
import { containerdNetwork } from "../interop/networks.ts"
import {
  addressesOf,
  changeMac,
  chooseIptables,
  expectUnchanged,
  type HostNamespace,
  isAllocationTrace,
  isLong,
  linkNames,
  linkOf,
  ping,
  pingOnce,
  scaleTimeout,
  waitForLocalRoutes,
} from "../lab/mod.ts"
import { FlowMeter } from "../reconcile/listener-lab.ts"
import { type Family, MigrateLab, type Published } from "./migrate-lab.ts"

let meter: FlowMeter
beforeAll(async () => {
  meter = await FlowMeter.build()
})
afterAll(() => meter[Symbol.asyncDispose]())

const [bridge] = containerdNetwork.plugins
const portmap = { type: "portmap", capabilities: { portMappings: true } }
const firewall = { type: "firewall" }
const chainOf = (...plugins: object[]) => ({ cniVersion: "1.0.0", name: "pods", plugins })

const pools = (...subnets: string[]) => ({ type: "host-local", ranges: subnets.map((subnet) => [{ subnet }]) })

/** Returns a ptp configuration with default routes for the subnets' families, which a bridge as gateway adds itself. */
const ptpTo = (...subnets: string[]) => {
  const routes = subnets.map((subnet) => ({ dst: subnet.includes(":") ? "::/0" : "0.0.0.0/0" }))
  return { type: "ptp", ipMasq: true, ipam: { ...pools(...subnets), routes } }
}

const rates = { ingressRate: 100_000_000, ingressBurst: 80_000_000, egressRate: 100_000_000, egressBurst: 80_000_000 }
const shaped = chainOf(bridge ?? {}, portmap, firewall, { type: "bandwidth", ...rates })

/** A kind of network that moves from one suite to the other. */
interface Move {
  readonly what: string
  readonly network: object
  /** The families of the network, by default only IPv4. */
  readonly families?: readonly Family[]
  readonly prepare?: (host: HostNamespace) => Promise<unknown>
  /** Whether the test runs only in `npm run test:faults`, because another test covers nearly the same. */
  readonly isInLongForm?: true
  /** Checks properties of running containers of either suite, before and after each switch. */
  readonly holds?: (lab: MigrateLab, pods: readonly Published[]) => Promise<void>
}

const moves: readonly Move[] = [
  {
    what: "firewall's rules of firewalld",
    network: chainOf(bridge ?? {}, portmap, firewall),
    prepare: startFirewalld,
    async holds(lab, pods) {
      const addresses = (await Promise.all(pods.map(({ pod }) => addressesOf(pod, "eth0")))).flat()
      expect(await sourcesIn(lab.node.host)).toEqual(addresses.map((one) => one.replace("/16", "/32")).sort())
    },
  },
  {
    what: "a bridge that checks MACs",
    network: chainOf({ ...bridge, macspoofchk: true }, portmap, firewall),
    async holds(_, [first, second]) {
      if (!first || !second) throw new Error("no containers")
      const gateway = "10.85.0.1"
      for (const { pod } of [first, second]) {
        const { address } = await linkOf(pod, "eth0")
        expect(await ping(pod, gateway)).toBe(true)
        await changeMac(pod, "0a:00:00:00:00:99")
        expect(await pingOnce(pod, gateway)).toBe(false)
        await changeMac(pod, address)
        expect(await ping(pod, gateway)).toBe(true)
      }
    },
  },
  {
    what: "shaped traffic",
    network: shaped,
    async holds({ node: { host } }, pods) {
      const { stdout } = await host.exec("tc", ["qdisc", "show"])
      expect(stdout.match(/ tbf /g)).toHaveLength(2 * pods.length)
    },
  },
  {
    what: "ptp",
    network: chainOf(ptpTo("10.86.0.0/24"), portmap, firewall),
    isInLongForm: true,
  },
  {
    what: "IPv6 alone",
    network: chainOf({ ...bridge, ipam: pools("fd00:85::/64") }, portmap, firewall),
    families: ["ip6"],
    isInLongForm: true,
  },
  {
    what: "IPv4 and IPv6",
    network: chainOf({ ...bridge, ipam: pools("10.85.0.0/16", "fd00:85::/64") }, portmap, firewall),
    families: ["ip", "ip6"],
  },
  {
    what: "ptp with IPv4 and IPv6",
    network: chainOf(ptpTo("10.86.0.0/24", "fd00:86::/64"), portmap, firewall),
    families: ["ip", "ip6"],
  },
  {
    what: "legacy tables of iptables",
    network: chainOf(...containerdNetwork.plugins, firewall),
    prepare: (host) => chooseIptables(host, "legacy"),
  },
]

/** Waits until the kernel has added the local routes of the bridge's own IPv6 addresses, which takes some time. */
async function settled(host: HostNamespace): Promise<void> {
  if ((await linkNames(host)).includes("cni0")) await waitForLocalRoutes(host, await addressesOf(host, "cni0"))
}

const ipv4: readonly Family[] = ["ip"]

for (const { what, network, families = ipv4, prepare, holds = async () => {} } of moves.filter(
  ({ isInLongForm = false }) => isLong || !isInLongForm,
))
  test(
    `${what}: no flow is lost by the switch and the way back, each suite deletes what the other has made, and nothing is left`,
    async () => {
      await using lab = await MigrateLab.create(network, prepare)
      await lab.remove(await lab.add(1)) // creates the bridge, chains and sysctls that stay
      await settled(lab.node.host)
      const before = await lab.snapshot()
      const theirs = await lab.add(3)
      await holds(lab, theirs)
      const nothingLost = Array.from({ length: 2 * families.length }, () => expect.objectContaining({ lost: 0 }))
      const there = await lab.counting(meter, theirs.slice(-2), () => lab.report(["--apply"]), families)
      expect(there).toEqual(nothingLost)
      const ours = await lab.add(3)
      await holds(lab, [...theirs, ...ours])
      const [second, ...kept] = theirs
      if (!second) throw new Error("no container")
      await lab.remove([second])

      const isBack = async () => void (await lab.migrate(["--back"]))
      expect(await lab.counting(meter, ours.slice(0, 2), isBack, families)).toEqual(nothingLost)
      expect(await lab.files()).toEqual(await lab.goFiles())
      await holds(lab, [...ours, ...kept])
      await lab.remove([...kept, ...ours])
      expect(await lab.report(["--back"])).toMatchObject({ remains: [], failed: [] })
      expectUnchanged(before, await lab.snapshot(), isAllocationTrace)
    },
    scaleTimeout(300_000),
  )

test("the device of a second shaped interface, which the Go plugin's DEL does not find, goes with the next way back", async () => {
  // With the Go plugins, both interfaces of a container share one masquerading chain, so DEL of the first interface
  // would fail.
  const unmasked = chainOf({ ...bridge, ipMasq: false }, { type: "bandwidth", ...rates })
  await using lab = await MigrateLab.create(unmasked)
  const { host } = lab.node
  const devices = async () => await host.json<object[]>("ip", ["-j", "link", "show", "type", "ifb"])
  await lab.report(["--apply"])
  const { path } = await host.addContainer()
  const call = async (verb: "add" | "del") => {
    for (const ifName of ["eth0", "eth1"])
      expect(await lab.node.cni([verb, "pods", path, "--ifname", ifName])).toMatchObject({ exitCode: 0 })
  }
  await call("add")
  await lab.migrate(["--back"])
  await call("del")
  expect(await devices()).not.toEqual([])
  const { removed, remains } = await lab.report(["--back"])
  expect(removed).toContainEqual(expect.stringMatching(/^interface /))
  expect({ devices: await devices(), remains }).toEqual({ devices: [], remains: [] })
})
