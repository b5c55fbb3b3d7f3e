/**
 * The firewall plugin and firewalld, whose part the test plays, on its own host: sources that are added to a zone and
 * removed.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Group, inForce, made, specOf } from "../../../meta/firewall/testing/firewall.ts"
import {
  type Backend,
  Firewall,
  type FirewallConfig,
  playedFirewall,
  Zones,
} from "../../../meta/firewall/testing/zones.ts"
import { Netns } from "../../../pkg/netns/mod.ts"
import { refusalOf } from "../../../pkg/types/testing.ts"
import { Undo } from "../../../pkg/undo/mod.ts"
import { HostNamespace } from "../../lab/mod.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("zones")
})
afterAll(() => host[Symbol.asyncDispose]())

/** Runs the methods of a firewall in the host's namespace. */
function inside(firewall: Firewall): Pick<Firewall, "add" | "check" | "remove" | "gc" | "requireUsable"> {
  const run = (act: () => void) => {
    using namespace = Netns.open(host.path)
    namespace.run(act)
  }
  return {
    add: (...given) => run(() => firewall.add(...given)),
    check: (...given) => run(() => firewall.check(...given)),
    remove: (...given) => run(() => firewall.remove(...given)),
    gc: (...given) => run(() => firewall.gc(...given)),
    requireUsable: (...given) => run(() => firewall.requireUsable(...given)),
  }
}

const common = { iptablesAdminChainName: "CNI-ADMIN", firewalldZone: "trusted", ingressPolicy: "open" } as const
const configOf = (backend?: Backend): FirewallConfig => ({ ...common, backend })

/** The same, with the test in place of the kernel and firewalld. */
function hostWith(...given: Parameters<typeof playedFirewall>) {
  const { firewall, ...played } = playedFirewall(...given)
  return { ...played, firewall: inside(firewall) }
}

const own = ["trusted 10.1.0.2/32", "trusted fd00:1::2/128"]
const given = { addresses: specOf(2).addresses, bridge: undefined }
const longer = { ...specOf(7), owner: { ...specOf(7).owner, network: "xnet1", containerId: "c2" } }

describe("without firewalld, and without nf_tables", () => {
  const without = inside(new Firewall(() => {}, { filter: undefined, findFirewalld: () => undefined }))
  const noFirewalld = 'firewalld is not running, or its bus cannot be reached, and "backend" asks for it'
  const noNftables = "the kernel needs nf_tables with connection tracking"

  test("backend firewalld is refused by ADD, CHECK and STATUS, and nothing is sent", () => {
    const { firewall, kernel } = hostWith(undefined, made(specOf(2)))
    using undo = new Undo(() => {})
    for (const act of [
      () => firewall.add(specOf(2), configOf("firewalld"), undo),
      () => firewall.check(specOf(2), configOf("firewalld")),
    ])
      expect(refusalOf(act)).toMatchObject({ code: 999, message: `Cannot use firewalld: ${noFirewalld}` })
    expect(refusalOf(() => firewall.requireUsable(configOf("firewalld")))).toMatchObject({
      code: 50,
      message: "Cannot filter by firewalld",
      details: noFirewalld,
    })
    expect(kernel.sent).toEqual([])
  })

  test("backend nftables is refused by ADD, CHECK and STATUS", () => {
    using undo = new Undo(() => {})
    expect(refusalOf(() => without.add(specOf(2), configOf("nftables"), undo))).toMatchObject({
      code: 999,
      message: "Cannot filter by nftables: the kernel has no nf_tables",
    })
    expect(refusalOf(() => without.requireUsable(configOf("nftables")))).toMatchObject({
      code: 50,
      message: "Cannot filter by nftables",
      details: noNftables,
    })
    const busy = hostWith(undefined, [], "EEXIST", "EBUSY")
    expect(refusalOf(() => busy.firewall.add(specOf(2), configOf("nftables"), undo))).toMatchObject({
      code: 999,
      message: "Cannot filter by nftables",
      details: expect.stringContaining("EBUSY"),
    })
  })

  test("there is nothing to delete and to collect", () => {
    without.remove(specOf(2).owner, configOf(), { addresses: [], bridge: undefined })
    without.gc("net1", [], configOf())
  })
})

test("STATUS is well where firewalld runs, or nf_tables can filter; it lets go of firewalld", () => {
  const zones = new Zones([])
  const { firewall, asked } = hostWith(zones)
  for (const backend of ["firewalld", "nftables", undefined] as const) firewall.requireUsable(configOf(backend))
  expect(asked).toEqual(["firewalld"])
  expect(zones.closed).toBe(1)
})

describe("where firewalld runs, ADD", () => {
  const add = (zones: Zones, groups: Group[], backend?: Backend) => {
    const host = hostWith(zones, groups, "EEXIST")
    using undo = new Undo(() => {})
    host.firewall.add(specOf(2), configOf(backend), undo)
    undo.keep()
    expect(zones.closed).toBe(backend === "nftables" ? 0 : 1)
    expect(host.log).toEqual([])
    return host
  }

  test.each([undefined, "firewalld"] as const)("makes addresses sources of the zone, for backend %p", (backend) => {
    const zones = new Zones(["home 10.9.0.0/16"])
    const { asked } = add(zones, [], backend)
    expect(zones.sources).toEqual(["home 10.9.0.0/16", ...own])
    expect(asked).toEqual([backend])
  })

  test("leaves zones alone for backend nftables", () => {
    expect(add(new Zones([]), [], "nftables").asked).toEqual(["nftables"])
  })

  test("removes the sources that the attachment has had at other addresses, and of no other", () => {
    const former = { ...specOf(9), owner: specOf(2).owner }
    const zones = new Zones([
      "home 10.1.0.9/32",
      "home fd00:1::9/128",
      "home 10.1.0.7/32",
      "home fd00:1::7/128",
      ...own,
    ])
    add(zones, [...made(former, "home"), ...made(longer, "home")])
    expect(zones.sources.sort()).toEqual(["home 10.1.0.7/32", "home fd00:1::7/128", ...own])
  })
})

describe("CHECK", () => {
  test("does not ask for firewalld where no address has a note of a zone", () => {
    const { firewall, asked } = hostWith(new Zones([]), made(specOf(2)))
    firewall.check(specOf(2), configOf())
    expect(asked).toEqual([])
  })

  test("compares the sources that are noted, with any zone of today, and lets go of firewalld", () => {
    const zones = new Zones(["home 10.1.0.2/32", "home fd00:1::2/128"])
    for (const backend of [undefined, "nftables", "firewalld"] as const)
      hostWith(zones, made(specOf(2), "home")).firewall.check(specOf(2), configOf(backend))
    expect(zones.closed).toBe(3)
    const { firewall } = hostWith(new Zones(own), made(specOf(2), "home"))
    expect(refusalOf(() => firewall.check(specOf(2), configOf())).message).toStartWith(
      'Cannot find the address 10.1.0.2/32 in zone "home" of firewalld',
    )
  })

  test("takes what the Go suite has made by firewalld for what is asked for, but not for a policy", () => {
    for (const backend of [undefined, "firewalld"] as const)
      hostWith(new Zones(own)).firewall.check(specOf(2), configOf(backend))
    for (const [zones, spec] of [
      [new Zones(own), specOf(2, "isolated")],
      [new Zones(own.slice(1)), specOf(2)],
      [undefined, specOf(2)],
    ] as const)
      expect(() => hostWith(zones).firewall.check(spec, configOf())).toThrow("Cannot find the ")
  })

  test("is for nf_tables what ADD has made, and names what is missing of it", () => {
    hostWith(undefined, [...made(specOf(2, "same-bridge")), ...inForce("same-bridge")]).firewall.check(
      specOf(2, "same-bridge"),
      configOf("nftables"),
    )
    expect(refusalOf(() => hostWith(undefined).firewall.check(specOf(2), configOf("nftables"))).message).toStartWith(
      "Cannot find the firewall rules of net1/c2/eth0: expected 10.1.0.2",
    )
  })
})

describe("DEL", () => {
  const removed = (zones: Zones, groups: readonly Group[], config = configOf(), known = given) => {
    const { firewall, log } = hostWith(zones, groups)
    firewall.remove(specOf(2).owner, config, known)
    expect(log).toEqual([])
    return zones.sources
  }

  test("removes the sources that are noted, with any backend, but not those that others have by now", () => {
    const noted = ["home 10.1.0.2/32", "home fd00:1::2/128"]
    for (const backend of [undefined, "nftables", "iptables", "firewalld"] as const)
      expect(removed(new Zones([...noted, "home 10.1.0.3/32"]), made(specOf(2), "home"), configOf(backend))).toEqual([
        "home 10.1.0.3/32",
      ])
    const theirs = made({ ...specOf(2), owner: { ...specOf(2).owner, network: "net9" } }, "home").slice(0, 1)
    const standing = theirs.map(({ set, elements }) => ({
      set: (set as unknown as { standby: Group["set"] }).standby,
      elements: elements.map((one) => ({ ...one, key: [...one.key, Uint8Array.of(0, 1)] })),
    }))
    expect(removed(new Zones(noted), [...made(specOf(2), "home"), ...standing])).toEqual(["home 10.1.0.2/32"])
  })

  test("removes what the Go suite has added, by what it is told, where the backend may be firewalld", () => {
    for (const backend of [undefined, "firewalld"] as const)
      expect(removed(new Zones([...own, "home 10.1.0.2/32"]), [], configOf(backend))).toEqual(["home 10.1.0.2/32"])
    for (const backend of ["nftables", "iptables"] as const)
      expect(removed(new Zones(own), [], configOf(backend))).toEqual(own)
    expect(removed(new Zones(own), made(specOf(2)))).toEqual(own)
    expect(removed(new Zones(own), [], configOf(), { ...given, addresses: given.addresses.slice(1) })).toEqual(
      own.slice(0, 1),
    )
  })

  test("goes on where firewalld has stopped, and where a source cannot be removed, which is a line of the log", () => {
    const { firewall, kernel } = hostWith(undefined, [...made(specOf(2), "home"), ...made(specOf(3))])
    firewall.remove(specOf(2).owner, configOf(), given)
    expect(kernel.sent).toHaveLength(1)
    const stuck = hostWith(new Zones(["home 10.1.0.2/32"], "home 10.1.0.2/32"), made(specOf(2), "home"))
    stuck.firewall.remove(specOf(2).owner, configOf(), given)
    expect(stuck.log).toEqual([
      "Error: refused: home 10.1.0.2/32; firewalld forgets it when it is reloaded or restarted",
    ])
    expect(stuck.kernel.sent).toHaveLength(1)
  })
})

test("what nf_tables refuses is an error of DEL and GC, and firewalld is not asked", () => {
  for (const [act, message] of [
    [
      (firewall) => firewall.remove(specOf(2).owner, configOf("nftables"), given),
      "Cannot remove the firewall rules of net1/c2/eth0 by nftables",
    ],
    [
      (firewall) => firewall.gc("net1", [], configOf()),
      'Cannot remove the stale firewall rules of network "net1" by nftables',
    ],
  ] as readonly [(firewall: Pick<Firewall, "remove" | "gc">) => void, string][]) {
    const zones = new Zones([])
    const { firewall } = hostWith(zones, [...made(specOf(2)), ...made(specOf(3))], "EBUSY", "EBUSY")
    const details = expect.stringContaining("EBUSY")
    expect(refusalOf(() => act(firewall))).toMatchObject({ code: 999, message, details })
    expect(zones.closed).toBe(0)
  }
})

test("GC removes the sources of what is not valid of the network", () => {
  const zones = new Zones(["home 10.1.0.3/32", ...own, "trusted 10.1.0.7/32"])
  const groups = [...made(specOf(2), "trusted"), ...made(specOf(3), "home"), ...made(longer, "trusted")]
  hostWith(zones, groups).firewall.gc("net1", [specOf(3).owner], configOf())
  expect(zones.sources).toEqual(["home 10.1.0.3/32", "trusted 10.1.0.7/32"])
  expect(zones.closed).toBe(1)
})
