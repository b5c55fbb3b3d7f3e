import { describe, expect, test } from "bun:test"
import type { ListedRoute } from "../../pkg/netlink/mod.ts"
import { formatCidr, formatIp, parseCidr, parseIp } from "../../pkg/types/mod.ts"
import type { Block, Node, Owner, Pool } from "../records.ts"
import { changesFor, planRoutes, type RoutePlan, type RouteRecords } from "./plan.ts"

const owner = (name: string): Owner => ({ name, uid: `uid-of-${name}`, machineId: `machine-of-${name}` })
const node = (name: string, ...addresses: string[]): Node => ({ owner: owner(name), addresses })
const block = (prefix: string, name: string, keys: Partial<Block> = {}): Block => ({
  pool: "pods",
  prefix,
  owner: owner(name),
  nonce: "",
  epoch: 1,
  state: "owned",
  ...keys,
})
const pods: Pool = {
  name: "pods",
  network: "pods",
  prefixes: [
    { prefix: "10.64.0.0/16", blockLength: 26, reserved: [] },
    { prefix: "fd00:64::/48", blockLength: 80, reserved: [] },
  ],
  routes: [],
  quarantineS: 1,
  routing: "host-gw",
}
const nodes = [node("a", "192.0.2.1", "2001:db8::1"), node("b", "192.0.2.2", "2001:db8::2"), node("c", "192.0.2.3")]

/** The plan of node a, as `ip route` has routes. */
function planned(blocks: readonly Block[], { known = nodes, pool = pods }: { known?: Node[]; pool?: Pool } = {}) {
  const { wanted, kept, faults } = planRoutes("a", { registry: { pools: { pods: pool } }, nodes: known, blocks })
  const routes = wanted.map((one) => `${formatCidr(one.block)} via ${formatIp(one.gateway)}`)
  return { routes, kept: [...kept], faults }
}

describe("a node's routes", () => {
  test("are to the blocks of other nodes, by their addresses of the same family; adjacent blocks stay apart", () => {
    const blocks = [
      block("10.64.0.0/26", "a"),
      block("10.64.0.64/26", "b"),
      block("10.64.0.128/26", "b"),
      block("fd00:64:0:1::/80", "b"),
      block("10.64.1.0/26", "c"),
    ]
    expect(planned(blocks)).toEqual({
      routes: [
        "10.64.0.64/26 via 192.0.2.2",
        "10.64.0.128/26 via 192.0.2.2",
        "fd00:64:0:1::/80 via 2001:db8::2",
        "10.64.1.0/26 via 192.0.2.3",
      ],
      kept: [],
      faults: [],
    })
  })

  test("stay for blocks that drain and that are in quarantine", () => {
    const states = [
      block("10.64.1.0/26", "b", { state: "draining" }),
      block("10.64.2.0/26", "b", { state: "quarantined" }),
    ]
    expect(planned(states).routes).toEqual(["10.64.1.0/26 via 192.0.2.2", "10.64.2.0/26 via 192.0.2.2"])
  })

  test("are kept as they are for blocks of a node without a record", () => {
    expect(planned([block("10.64.1.0/26", "gone", { state: "quarantined" })])).toEqual({
      routes: [],
      kept: ["10.64.1.0/26"],
      faults: ['Cannot route to new blocks of node "gone": it has no record in the store'],
    })
  })

  test("are not there for a family of which a node has no address: one fault for all its blocks", () => {
    expect(
      planned([block("fd00:64:0:2::/80", "c"), block("fd00:64:0:3::/80", "c"), block("10.64.1.0/26", "c")]),
    ).toEqual({
      routes: ["10.64.1.0/26 via 192.0.2.3"],
      kept: [],
      faults: ['Cannot route to the IPv6 blocks of node "c": it has published no IPv6 address'],
    })
  })

  test("are those of the owner, where its name has been another machine's", () => {
    const former = { ...owner("b"), uid: "former" }
    expect(planned([block("10.64.1.0/26", "b", { owner: former, state: "quarantined" })]).routes).toEqual([
      "10.64.1.0/26 via 192.0.2.2",
    ])
    const reinstalled: Node = { owner: { ...owner("b"), machineId: "another" }, addresses: ["192.0.2.8"] }
    expect(planned([block("10.64.1.0/26", "b")], { known: [reinstalled, ...nodes] }).routes).toEqual([
      "10.64.1.0/26 via 192.0.2.2",
    ])
    const ofFormer: Node = { owner: former, addresses: ["192.0.2.9"] }
    expect(planned([block("10.64.1.0/26", "b")], { known: [ofFormer, ...nodes] }).routes).toEqual([
      "10.64.1.0/26 via 192.0.2.2",
    ])
  })

  test("are not to blocks of an earlier owner of the own name, nor by an own address", () => {
    expect(planned([block("10.64.1.0/26", "a", { owner: { ...owner("a"), uid: "former" } })]).routes).toEqual([])
    expect(planned([block("10.64.1.0/26", "d")], { known: [...nodes, node("d", "192.0.2.1")] })).toEqual({
      routes: [],
      kept: [],
      faults: ['Cannot route to the IPv4 blocks of node "d": it has published an address of this node'],
    })
  })

  test.each(["0.0.0.0/0", "10.64.1.1/26", "10.64.1.0/24", "10.65.1.0/26", "no prefix"])(
    "are never to what is no block of the pool: %s",
    (prefix) => {
      expect(planned([block(prefix, "b")])).toEqual({
        routes: [],
        kept: [],
        faults: [`Cannot route to block ${prefix} of pool "pods": it is not a block of the pool`],
      })
    },
  )

  test("are of pools with host-gw alone, and not where all nodes share a link", () => {
    const blocks = [block("10.64.1.0/26", "b"), block("10.64.1.0/26", "b", { pool: "unknown" })]
    expect(planned(blocks, { pool: { ...pods, routing: "none" } })).toEqual({ routes: [], kept: [], faults: [] })
    const prefixes = [{ prefix: "10.64.0.0/16", blockLength: 26, reserved: [], gateway: "10.64.0.1" }]
    expect(planned(blocks.slice(0, 1), { pool: { ...pods, prefixes } })).toEqual({
      routes: [],
      kept: [],
      faults: [
        'Cannot route to the blocks of pool "pods": its prefix 10.64.0.0/16 has a gateway, so that all nodes share its link',
      ],
    })
  })
})

const bytes = (text: string) => parseIp(text) ?? expect.unreachable()
const listed = (prefix: string, gateway: string) =>
  ({
    dst: bytes(prefix.split("/")[0] ?? ""),
    prefix: Number(prefix.split("/")[1]),
    gateway: bytes(gateway),
  }) as ListedRoute
const wanted = (prefix: string, gateway: string) => ({
  block: parseCidr(prefix) ?? expect.unreachable(),
  gateway: bytes(gateway),
  node: "b",
})
const changed = (plan: Partial<RoutePlan>, ...present: ListedRoute[]) => {
  const { removed, added } = changesFor({ wanted: [], kept: new Set(), faults: [], ...plan }, present)
  return [
    ...removed.map(({ dst, prefix, gateway = dst }) => `- ${formatCidr({ ip: dst, prefix })} ${formatIp(gateway)}`),
    ...added.map(({ block: ip, gateway }) => `+ ${formatCidr(ip)} ${formatIp(gateway)}`),
  ]
}

describe("in a store that may be one from a backup", () => {
  const ofBackup = [block("10.64.1.0/26", "b"), block("10.64.2.0/26", "c"), block("10.64.3.0/26", "a")]
  const since = block("10.64.4.0/26", "a")
  const [, b] = nodes
  const planFrom = (isOld: NonNullable<RouteRecords["isOld"]>) =>
    planRoutes("a", { registry: { pools: { pods } }, nodes, blocks: [...ofBackup, since], isOld })

  test("a record counts that was written since, of the block or of its node", () => {
    const { wanted, removable } = planFrom((record) => record !== since && record !== b)
    expect(wanted.map(({ node: name, isOld }) => [name, isOld])).toEqual([
      ["b", undefined],
      ["c", true],
    ])
    expect(removable).toEqual(new Set(["10.64.4.0/26"]))
  })

  test("all that is there stays but routes to own blocks, and what is missing is added", () => {
    const plan = planFrom((record) => record !== since)
    const present = [
      listed("10.64.1.0/26", "192.0.2.9"), // the address that b has got after the backup
      listed("10.64.4.0/26", "192.0.2.2"),
      listed("10.64.9.0/26", "192.0.2.3"), // a block that the backup does not know
    ]
    expect(changed(plan, ...present)).toEqual(["- 10.64.4.0/26 192.0.2.2", "+ 10.64.2.0/26 192.0.2.3"])
    expect(
      changed(
        planFrom((record) => record !== b),
        listed("10.64.1.0/26", "192.0.2.9"),
      ),
    ).toEqual(["- 10.64.1.0/26 192.0.2.9", "+ 10.64.1.0/26 192.0.2.2", "+ 10.64.2.0/26 192.0.2.3"])
  })
})

describe("what changes in the table", () => {
  test("nothing, where it is as planned", () => {
    expect(changed({ wanted: [wanted("10.64.1.0/26", "192.0.2.2")] }, listed("10.64.1.0/26", "192.0.2.2"))).toEqual([])
  })

  test("another gateway: the old route goes, the new one comes", () => {
    const present = [listed("10.64.1.0/26", "192.0.2.9"), listed("10.64.2.0/26", "192.0.2.2")]
    expect(changed({ wanted: [wanted("10.64.1.0/26", "192.0.2.2")] }, ...present)).toEqual([
      "- 10.64.1.0/26 192.0.2.9",
      "- 10.64.2.0/26 192.0.2.2",
      "+ 10.64.1.0/26 192.0.2.2",
    ])
  })

  test("a second route to a prefix goes; one that is kept stays", () => {
    const present = [listed("fd00:64::/80", "2001:db8::2"), listed("fd00:64::/80", "2001:db8::3")]
    const plan = { wanted: [wanted("fd00:64::/80", "2001:db8::2")], kept: new Set(["10.64.3.0/26"]) }
    expect(changed(plan, ...present, listed("10.64.3.0/26", "192.0.2.3"))).toEqual(["- fd00:64::/80 2001:db8::3"])
  })
})
