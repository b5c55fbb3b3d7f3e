import { describe, expect, test } from "bun:test"
import type { NodeAttachment } from "../node/mod.ts"
import { checkComplete, checkDuplicates } from "./attachments.ts"
import { checkOrphans, isProvablyGone } from "./orphans.ts"
import { attachmentOf, cachedOf, inputOf, linkOf, type Parts, printed } from "./testing/inputs.ts"

const networks = [{ network: { name: "pods", plugins: [{ type: "bridge" }] } }]
const orphans = (more: Partial<NodeAttachment>, parts: Parts = { networks }) =>
  printed(checkOrphans(inputOf({ ...parts, attachments: [attachmentOf(more)] })))
const ruleIn = (place: string) => ({ place, backend: "nftables", owner: "" }) as const
const FIX = "cni doctor --fix"
const BY_HAND = "cni gc --auto pods"

describe("what a container that is gone has left", () => {
  test("is told once, with all parts", () => {
    const rules = ["ip cni_masquerade containers", "ip nat POSTROUTING", "ip nat POSTROUTING"].map(ruleIn)
    const orphan = [
      "lease without namespace",
      "cache entry without namespace",
      "rules without namespace",
      "rules without lease",
    ]
    const addresses = ["10.85.0.2", "fd00::2"]
    const left = (...reasons: string[]) =>
      orphans({
        isAlive: false,
        netns: "/run/netns/x",
        orphan: orphan.filter((each) => reasons.some((one) => each.startsWith(one))),
        rules,
        addresses,
      })
    expect(left("lease", "cache", "rules")).toEqual([
      `warning stale-cache (pods), fixable
the runtime's cache has "pods/c1/eth0", but its namespace "/run/netns/x" does not exist; host-local keeps 10.85.0.2, fd00::2 for it; rules for it are in ip cni_masquerade containers, ip nat POSTROUTING
its container no longer exists, and no DEL was run
${FIX}`,
    ])
    expect(left("lease", "rules")).toEqual([
      `warning stale-lease (pods), fixable
host-local keeps 10.85.0.2, fd00::2 for "pods/c1/eth0": lease without namespace; rules for it are in ip cni_masquerade containers, ip nat POSTROUTING
its container no longer exists, and no DEL was run; the address is lost to the pool
${FIX}`,
    ])
    expect(left("rules")).toEqual([
      `warning orphaned-rules (pods), fixable
rules for "pods/c1/eth0" in ip cni_masquerade containers, ip nat POSTROUTING: rules without namespace, rules without lease
packets of the next holder of the address, or to a port of the host, go to the wrong destination
${FIX}`,
    ])
  })

  test("and may be used by another is left to people", () => {
    const link = linkOf(4, "veth1")
    expect(orphans({ link, orphan: ["link without cache entry"], pod: { namespace: "shop", name: "web" } })).toEqual([
      `warning orphaned-link (pods)
interface "veth1" belongs to "pods/c1/eth0" (pod shop/web), which has no cache entry
the runtime will not delete the interface, which keeps its address and its port of the bridge
${BY_HAND}`,
    ])
    expect(
      orphans({ sources: ["lease"], orphan: ["lease without cache entry"], pod: { namespace: "", name: "web" } }),
    ).toEqual([
      `warning stale-lease (pods)
host-local keeps  for "pods/c1/eth0" (pod web): lease without cache entry
its container no longer exists, and no DEL was run; the address is lost to the pool
${BY_HAND}`,
    ])
    expect(orphans({})).toEqual([])
    expect(orphans({ sources: ["lease"], orphan: ["lease without cache entry"] }, {})[0]).toContain(
      'if no container uses it: write a configuration of network "pods" to /etc/cni/net.d, and run cni gc --auto pods',
    )
  })

  test("and has no configuration is told with a command that works", () => {
    const gone = {
      isAlive: false,
      netns: "/run/netns/x",
      sources: ["cache"],
      orphan: ["cache entry without namespace"],
    } as const
    const [ofLoopback] = orphans({ ...gone, ...cachedOf([{ type: "loopback" }]) }, {})
    expect(ofLoopback).toMatch(/^warning stale-cache \(pods\), fixable\n(.*\n)*cni doctor --fix$/)
    expect(orphans(gone, {})[0]).toMatch(
      /^warning stale-cache \(pods\)\n(.*\n)*rm \/nowhere\/cache\/results\/pods-c1-eth0$/,
    )
  })

  test.each<[boolean, string, Partial<NodeAttachment>]>([
    [true, "its namespace no longer exists", { isAlive: false, netns: "/x", sources: ["cache", "lease"] }],
    [false, "its namespace no longer exists, and a link is there", { isAlive: false, link: linkOf(4, "veth1") }],
    [false, "its namespace is there", { isAlive: true, netns: "/x", sources: ["rule"] }],
    [true, "nothing but rules name it", { sources: ["rule"] }],
    [false, "rules name it, which note a namespace", { sources: ["rule"], netns: "/x" }],
    [false, "a lease names it as well", { sources: ["rule", "lease"] }],
  ])("provably has no owner: %p, where %s", (isGone, _, more) => {
    expect(isProvablyGone(attachmentOf(more))).toBe(isGone)
  })
})

describe("what containers that live have to have", () => {
  const AGAIN = "cni reattach pods/c1/eth0"
  const missing = (more: Partial<NodeAttachment>, parts: Parts = {}) =>
    printed(checkComplete(inputOf({ ...parts, attachments: [attachmentOf({ isAlive: true, ...more })] })))

  test("is an end on the host", () => {
    const interfaces = [{ name: "cni0" }, { name: "veth9" }, { name: "eth0", sandbox: "/x" }]
    const result = { interfaces, ips: [], routes: [], dns: {} }
    const cached = cachedOf([{ type: "bridge" }])
    expect(missing({ ...cached, result })).toEqual([
      `error missing-host-end (pods)
"veth9", the host's end of "pods/c1/eth0", does not exist
the container no longer has an interface
${AGAIN}`,
    ])
    expect(missing({ ...cached, result, link: linkOf(4, "veth9") })).toEqual([])
    expect(
      missing({ ...cached, result: { ...result, interfaces: [{ name: "veth0", sandbox: "/x" }, { name: "myveth" }] } }),
    ).toEqual([])
    expect(missing({ result })).toEqual([])
    expect(missing({ ...cached, result, isAlive: false })).toEqual([])
  })

  test("is a masquerade, where it is asked for", () => {
    const cached = cachedOf([{ type: "bridge", ipMasq: true }, { type: "tuning" }])
    const addresses = ["10.85.0.2/24"]
    expect(missing({ ...cached, addresses })).toEqual([
      `error missing-masquerade (pods)
no masquerade for "pods/c1/eth0", but its network sets "ipMasq": rules were removed from table ip cni_masquerade
its packets leave with a source address that outside hosts cannot reach; a firewall's reload may have flushed the rules
${AGAIN}`,
    ])
    const tables = (...names: string[]) => ({
      filter: { bases: [], rules: [], tables: names.map((name) => ({ family: "ip", name }) as const) },
    })
    expect(missing({ ...cached, addresses }, tables("other"))[0]).toContain(
      ": table ip cni_masquerade does not exist\n",
    )
    expect(missing({ ...cached, addresses }, tables("cni_masquerade"))[0]).toContain(
      ": rules were removed from table ip cni_masquerade\n",
    )
    expect(missing({ ...cached, addresses: ["fd00::2/64"] })[0]).toContain("table ip6 cni_masquerade")
    const iptables = cachedOf([{ type: "bridge", ipMasq: true, ipMasqBackend: "iptables" }])
    expect(missing({ ...iptables, addresses })[0]).toContain("table ip nat\n")
    for (const place of ["ip cni_masquerade containers", "ip nat POSTROUTING", "ip nat CNI-01"]) {
      expect(missing({ ...cached, rules: [ruleIn("elsewhere"), ruleIn(place)] })).toEqual([])
    }
    expect(missing({ ...cached, rules: [ruleIn("ip nat PREROUTING")] })).toHaveLength(1)
    expect(missing(cachedOf([{ type: "bridge", ipMasq: false }]))).toEqual([])
    expect(missing(cachedOf("no JSON"))).toEqual([])
  })

  test("are its published ports", () => {
    const cached = cachedOf([{ type: "portmap" }])
    expect(missing({ ...cached, unservedPorts: ["8080→80/tcp", "203.0.113.1:53→53/udp"] })).toEqual([
      `error missing-ports (pods)
no rule forwards ports 8080/tcp, 203.0.113.1:53/udp to "pods/c1/eth0": rules were removed from table ip cni_hostports
a reload of a firewall, or nft flush ruleset, has removed the rules of published ports
${AGAIN}`,
    ])
    expect(missing({ ...cached, ports: ["8080→80/tcp"] })).toEqual([])
  })

  test("are its published ports, which are named of each of many containers, and of a thousand five", () => {
    const of = (containerId: string, ...unservedPorts: string[]) =>
      attachmentOf({ containerId, isAlive: true, ...cachedOf([{ type: "portmap" }]), unservedPorts })
    const range = Array.from({ length: 1000 }, (_, at) => `${9000 + at}→80/udp`)
    const attachments = [
      of("c1", "8080→80/tcp", "8080→80/tcp"),
      of("c2", "8081→80/tcp", "8081→80/udp"),
      of("c3", ...range),
    ]
    expect(printed(checkComplete(inputOf({ attachments })))[0]?.split("\n")[1]).toBe(
      `rules were removed from table ip cni_hostports: no published port is forwarded to 3 containers: "pods/c1/eth0": port 8080/tcp; "pods/c2/eth0": ports 8081/tcp, 8081/udp; "pods/c3/eth0": ports 9000/udp, 9001/udp, 9002/udp, 9003/udp, 9004/udp and 995 more`,
    )
  })

  test("is its lease, where leases can be read", () => {
    const cached = cachedOf([{ type: "tuning" }, { type: "bridge", ipam: { type: "host-local" } }])
    const more = { ...cached, addresses: ["10.85.0.2/24", "fd00::2/64"] }
    expect(missing(more)).toEqual([
      `error missing-lease (pods)
10.85.0.2/24, fd00::2/64 of "pods/c1/eth0" is not reserved in host-local's store
the next container may get the same address
mkdir -p /nowhere/data/pods; printf '%s\\r\\n%s' c1 eth0 | tee /nowhere/data/pods/10.85.0.2 /nowhere/data/pods/fd00::2 > /dev/null`,
    ])
    expect(missing({ ...more, sources: ["lease"] })).toEqual([])
    const unread = (what: "leases" | "links") => [
      { what: "rules" as const, reason: "" },
      { what, reason: "EACCES" },
    ]
    expect(missing(more, { unread: unread("leases") })).toEqual([])
    expect(missing(more, { unread: unread("links") })).toHaveLength(1)
    expect(missing(cachedOf([{ type: "bridge", ipam: { type: "static" } }]))).toEqual([])
  })
})

test("two containers that live and have one address", () => {
  const of = (containerId: string, addresses: string[], more: Partial<NodeAttachment> = {}) =>
    attachmentOf({ containerId, addresses, isAlive: true, ...more })
  const found = (...attachments: NodeAttachment[]) => printed(checkDuplicates(inputOf({ attachments })))
  const one = of("c1", ["10.85.0.2/24", "10.85.0.2"])
  expect(found(one)).toEqual([])
  expect(found(one, of("c2", ["10.85.0.3", "10.85.0.2/16"], { isAlive: undefined as never }))).toEqual([
    `error duplicate-address (pods)
2 containers have the same address, 10.85.0.2: "pods/c1/eth0", "pods/c2/eth0"
each gets some of the other's packets
delete "pods/c2/eth0" with the runtime and create it again; check that no second host-local shares the range`,
  ])
  expect(found(one, of("c2", ["10.85.0.2/24"], { isAlive: false }))).toEqual([])
  expect(found(one, of("c2", ["10.85.0.2/24"], { network: "lan" }))).toEqual([])
})
