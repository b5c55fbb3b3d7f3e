import { describe, expect, test } from "bun:test"
import { attachmentsOf, isNamespace } from "./attachments.ts"
import type { NodeLink } from "./links.ts"
import type { Node } from "./read.ts"

type Cached = Node["cache"][number]
type Lease = Node["stores"][number]["leases"][number]

const gone = "/run/netns/not-there"
const alive = "/proc/self/ns/net"
const c1 = { network: "lab", containerId: "c1", ifName: "eth0" }

const configOf = (plugins: readonly object[]) =>
  new TextEncoder().encode(JSON.stringify({ cniVersion: "1.1.0", name: "lab", plugins }))
const cachedOf = (more: Partial<Cached> = {}): Cached => ({
  ...c1,
  netns: alive,
  args: [],
  capabilityArgs: {},
  configComplete: true,
  result: undefined,
  writtenMs: 5,
  config: configOf([{ type: "portmap" }]),
  ...more,
})
const leaseOf = (more: Partial<Lease> = {}): Lease => ({
  address: "10.1.0.2",
  holder: { containerId: "c1", ifName: "eth0" },
  writtenMs: 7,
  reclaimable: false,
  ...more,
})
const linkOf = (more: Partial<NodeLink> = {}): NodeLink => ({
  index: 4,
  name: "veth1",
  kind: "veth",
  mac: "",
  mtu: 1500,
  isUp: true,
  state: "up",
  addresses: [],
  ...more,
})
const ruleOf = (rule: string | { place: string; owner: string }) =>
  ({
    place: "ip cni_masquerade containers",
    backend: "nftables",
    ...(typeof rule === "string" ? { owner: rule } : rule),
  }) as const

interface Parts {
  cache?: Cached[]
  leases?: Lease[]
  links?: NodeLink[]
  /** The owners of the attachment's rules. An object also names the chain. */
  owned?: (string | { place: string; owner: string })[]
  ports?: Node["rules"]["ports"]
  unread?: Node["unread"]
}

function attachments({ cache = [], leases = [], links = [], owned = [], ports = [], unread = [] }: Parts) {
  const store = { network: "lab", directory: "/x", leases, rangeSets: [] }
  const rules = { owned: owned.map(ruleOf), ports }
  return attachmentsOf({ cache, stores: [store], links, rules, unread } as unknown as Node)
}

const only = (parts: Parts) => {
  const [found, ...more] = attachments(parts)
  expect(more).toEqual([])
  return found ?? expect.unreachable()
}

const result = {
  cniVersion: "1.1.0",
  interfaces: [{ name: "br0" }, { name: "veth9" }, { name: "eth0", sandbox: gone }],
  ips: [{ address: "10.1.0.2/16", interface: 2 }, { address: "10.1.0.1/16", interface: 0 }, { address: "fd00::2/64" }],
}

describe("what names one attachment is one", () => {
  test("from cache, lease, link and rules, each noted", () => {
    const alias = "lab/c1/eth0"
    const found = only({ cache: [cachedOf()], leases: [leaseOf()], links: [linkOf({ alias })], owned: [alias, alias] })
    expect(found).toMatchObject({ ...c1, netns: alive, isAlive: true, addedMs: 5, orphan: [] })
    expect(found.sources).toEqual(["cache", "lease", "link", "rule"])
    expect(found.addresses).toEqual(["10.1.0.2"])
    expect(found.rules).toHaveLength(2)
    expect(found.link?.name).toBe("veth1")
  })

  test("of several links the first is its link, and links of others name nothing", () => {
    const alias = "lab/c1/eth0"
    expect(
      only({ links: [linkOf({ alias }), linkOf({ alias, name: "second" }), linkOf({ alias: "mine" }), linkOf()] }).link
        ?.name,
    ).toBe("veth1")
  })

  test("upstream's rules are of all interfaces of the container that are known, or of one without a name", () => {
    const comment = 'name: "lab" id: "c1"'
    const [first, second] = attachments({ cache: [cachedOf(), cachedOf({ ifName: "net1" })], owned: [comment] })
    expect([first?.sources, second?.sources]).toEqual([
      ["cache", "rule"],
      ["cache", "rule"],
    ])
    expect(only({ owned: [comment] })).toMatchObject({
      network: "lab",
      containerId: "c1",
      ifName: "",
      sources: ["rule"],
    })
    const others = [cachedOf({ containerId: "c2" }), cachedOf({ network: "lab2" })]
    expect(attachments({ cache: others, owned: [comment] }).map(({ sources }) => sources)).toEqual([
      ["cache"],
      ["cache"],
      ["rule"],
    ])
    expect(attachments({ owned: ["not ours"] })).toEqual([])
  })

  test("addresses of the result are those in the container, and a lease of one adds none", () => {
    const found = only({ cache: [cachedOf({ result })], leases: [leaseOf(), leaseOf({ address: "10.1.0.3" })] })
    expect(found.addresses).toEqual(["10.1.0.2/16", "fd00::2/64", "10.1.0.3"])
    expect(only({ cache: [cachedOf({ result: { cniVersion: "9.9.9" } })] }).addresses).toEqual([])
  })

  test("the pod is what the runtime says of it", () => {
    const args = [
      ["K8S_POD_NAMESPACE", "shop"],
      ["K8S_POD_NAME", "web"],
    ] as const
    expect(only({ cache: [cachedOf({ args })] }).pod).toEqual({ namespace: "shop", name: "web" })
    expect(only({ cache: [cachedOf({ args: args.slice(1) })] }).pod).toEqual({ namespace: "", name: "web" })
    expect(only({ cache: [cachedOf({ args: args.slice(0, 1) })] }).pod).toBeUndefined()
  })

  test("files of leases that are no reservations name nothing", () => {
    expect(attachments({ leases: [leaseOf({ holder: "torn" }), leaseOf({ holder: "foreign" })] })).toEqual([])
  })
})

test("what could not be read is not missing: a link is not an orphan where the cache is unknown", () => {
  const links = [linkOf({ alias: "lab/c1/eth0" })]
  expect(only({ links }).orphan).toEqual(["link without cache entry"])
  expect(only({ links, unread: [{ what: "cache", reason: "EACCES" }] }).orphan).toEqual([])
})

describe("ports", () => {
  const rule = {
    hostPort: "8080/tcp",
    port: 8080,
    protocol: "tcp",
    to: "[fd00::2]:80",
    owner: "lab/c1/eth0",
    netns: gone,
  }

  test("are those of the rules, or else those that were asked for", () => {
    const portMappings = [
      { hostPort: 8080, containerPort: 80, protocol: "TCP", hostIP: "203.0.113.1" },
      { HostPort: 53, ContainerPort: 5353, Protocol: "" },
      { hostPort: 0, containerPort: 1 },
      { containerPort: 1 },
      7,
    ]
    const asked = { capabilityArgs: { portMappings } }
    const portsOf = (parts: Parts) => {
      const { ports, unservedPorts } = only({ cache: [cachedOf(asked)], ...parts })
      return { ports, unservedPorts }
    }
    const all = ["203.0.113.1:8080→80/tcp", "53→5353/tcp"]
    expect(portsOf({ ports: [rule] })).toEqual({ ports: ["8080→80/tcp"], unservedPorts: all })
    const first = { ...rule, hostPort: "203.0.113.1:8080/tcp" }
    expect(portsOf({ ports: [first, first] })).toEqual({ ports: all.slice(0, 1), unservedPorts: all.slice(1) })
    expect(portsOf({})).toEqual({ ports: [], unservedPorts: all })
    expect(portsOf({ unread: [{ what: "rules", reason: "EPERM" }] })).toEqual({ ports: all, unservedPorts: [] })
    for (const place of ["ip nat CNI-DN-01", "ip nat CNI-HOSTPORT-DNAT", "ip cni_hostport hostports"])
      expect(portsOf({ owned: [{ place, owner: 'id: "c1"' }] })).toEqual({ ports: all, unservedPorts: [] })
    expect(portsOf({ owned: ["lab/c1/eth0"] })).toEqual({ ports: [], unservedPorts: all })
    expect(only({ cache: [cachedOf({ ...asked, config: configOf([{ type: "x" }]) })] }).ports).toEqual([])
    expect(only({ cache: [cachedOf({ capabilityArgs: { portMappings: "x" } })] }).ports).toEqual([])
  })

  const capabilityArgs = { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] }

  test("of one container in two networks lead to one of them, and stand by for the other", () => {
    const cache = [cachedOf({ capabilityArgs }), cachedOf({ capabilityArgs, network: "other", ifName: "net1" })]
    const seen = (parts: Parts) =>
      attachments({ cache, ...parts }).map(({ network, ports, unservedPorts, standbyPorts = [] }) => {
        return { network, ports, unservedPorts, standbyPorts }
      })
    const port = "8080→80/tcp"
    expect(seen({ ports: [rule] })).toEqual([
      { network: "lab", ports: [port], unservedPorts: [], standbyPorts: [] },
      { network: "other", ports: [], unservedPorts: [], standbyPorts: [port] },
    ])
    expect(seen({}).map(({ unservedPorts }) => unservedPorts)).toEqual([[port], [port]])
  })

  test("of Multus are those of its delegate, which has a record of its own", () => {
    const delegates = [{ plugins: [{ type: "bridge" }, { type: "portmap" }] }]
    const config = configOf([{ type: "multus", delegates }])
    expect(only({ cache: [cachedOf({ capabilityArgs, config })] })).toMatchObject({ ports: [], unservedPorts: [] })
  })

  test("tell where the namespace is, where nothing else does, and without an owner they name nothing", () => {
    expect(only({ ports: [rule] })).toMatchObject({ netns: gone, isAlive: false, sources: [] })
    expect(only({ cache: [cachedOf()], ports: [rule] }).netns).toBe(alive)
    expect(attachments({ ports: [{ ...rule, owner: "" }] })).toEqual([])
  })
})

describe("the namespace", () => {
  test("is that of the cache, of the result, or of the lease, which knows whether it lives", () => {
    const netns = { path: gone, exists: true }
    expect(only({ cache: [cachedOf({ netns: "", result })] })).toMatchObject({ netns: gone, isAlive: false })
    expect(only({ leases: [leaseOf({ netns })] })).toMatchObject({ netns: gone, isAlive: true })
    expect(only({ cache: [cachedOf()], leases: [leaseOf({ netns })] })).toMatchObject({ netns: alive, isAlive: true })
    expect(only({ leases: [leaseOf()] }).isAlive).toBeUndefined()
  })

  test("is one where the kernel has one at the path", () => {
    expect([alive, gone, "/etc/passwd/x", "/tmp"].map(isNamespace)).toEqual([true, false, false, false])
  })
})

describe("the host's end of what the reference suite has made", () => {
  test("is a veth of the host that the result names", () => {
    const names = (links: NodeLink[]) => only({ cache: [cachedOf({ result })], links }).link?.name
    expect(names([linkOf({ name: "br0", kind: "bridge" }), linkOf({ name: "veth9", nsid: 3 })])).toBeUndefined()
    expect(names([linkOf({ name: "eth0" }), linkOf(), linkOf({ name: "veth9" })])).toBe("veth9")
  })
})

test.each<[string, Parts, string[]]>([
  [
    "a lease whose namespace no longer exists",
    { leases: [leaseOf({ netns: { path: gone, exists: false } })] },
    ["lease without namespace"],
  ],
  [
    "a cache entry whose namespace no longer exists",
    { cache: [cachedOf({ netns: gone })] },
    ["cache entry without namespace"],
  ],
  [
    "rules beside it",
    { cache: [cachedOf({ netns: gone })], owned: ["lab/c1/eth0"] },
    ["cache entry without namespace", "rules without namespace"],
  ],
  [
    "a lease of an earlier boot",
    { leases: [leaseOf({ liveness: "lost" })], links: [linkOf({ alias: "lab/c1/eth0" })] },
    ["lease of an earlier boot or namespace", "link without cache entry"],
  ],
  [
    "a lease of a dead container",
    { cache: [cachedOf()], leases: [leaseOf({ liveness: "dead" })] },
    ["lease of an earlier boot or namespace"],
  ],
  ["a lease that lives", { cache: [cachedOf()], leases: [leaseOf({ liveness: "alive" })] }, []],
  ["a lease alone", { leases: [leaseOf()] }, ["lease without cache entry"]],
  ["a link alone", { links: [linkOf({ alias: "lab/c1/eth0" })] }, ["link without cache entry"]],
  ["rules alone", { owned: ["lab/c1/eth0"] }, ["rules without lease"]],
  ["rules and a lease", { owned: ["lab/c1/eth0"], leases: [leaseOf({ netns: { path: alive, exists: true } })] }, []],
])("an orphan, or none: %s", (_, parts, reasons) => {
  expect(only(parts).orphan).toEqual(reasons)
})
