import { expect, test } from "bun:test"
import type { NodeAttachment } from "../node/mod.ts"
import { checkBridges, checkGateways } from "./bridges.ts"
import { checkLinks, checkMtu } from "./links.ts"
import { attachmentOf, cachedOf, inputOf, linkOf, memberOf, type Parts, printed } from "./testing/inputs.ts"

const members = [memberOf({ type: "tuning" }), memberOf({ type: "bridge", isGateway: true })]
const bridge = linkOf(3, "cni0", { kind: "bridge", addresses: ["10.85.0.1/24", "fd00::1/64"] })
const veth = linkOf(4, "veth1", { master: 3 })

test("bridges and hosts' ends that are down, each once", () => {
  const down = { isUp: false }
  const end = { ...veth, ...down }
  const inside = linkOf(5, "eth0", { ...down, nsid: 1 })
  const links = [linkOf(3, "cni0", { ...down, nsid: 1 }), { ...bridge, ...down }, linkOf(9, "other", down)]
  const attachments = [attachmentOf({ link: end }), attachmentOf({ link: inside }), attachmentOf()]
  const text = (name: string, of = "") => `error link-down${of}
interface "${name}" is down
no packet passes it
ip link set ${name} up`
  expect(printed(checkLinks(inputOf({ members, links, attachments })))).toEqual([
    text("cni0"),
    text("veth1", " (pods)"),
  ])
  const two = [attachmentOf({ link: end }), attachmentOf({ containerId: "c2", link: { ...end, name: "veth2" } })]
  expect(printed(checkLinks(inputOf({ attachments: two })))).toEqual([
    `error link-down (pods)
the host's ends of 2 containers are down: "pods/c1/eth0", "pods/c2/eth0"
no packet passes it
for each in veth1 veth2; do ip link set "$each" up; done`,
  ])
  expect(
    printed(
      checkLinks(
        inputOf({
          members,
          links: [{ ...bridge, ...down }],
          attachments: [two[0] as never, attachmentOf({ containerId: "c3", link: veth })].map((one) => ({
            ...one,
            link: veth,
          })),
        }),
      ),
    )[0],
  ).toContain('interface "cni0", the bridge of 2 containers, is down: "pods/c1/eth0", "pods/c3/eth0"')
  expect(checkLinks(inputOf({ members, links: [bridge], attachments: [attachmentOf({ link: veth })] }))).toEqual([])
})

test("hosts' ends that are not ports of their bridge any more", () => {
  const found = (link: NodeAttachment["link"] | undefined, parts: Parts = {}) =>
    printed(
      checkBridges(
        inputOf({
          members,
          links: [bridge],
          attachments: [attachmentOf({ ...cachedOf(members.map(({ raw }) => raw)), ...(link ? { link } : {}) })],
          ...parts,
        }),
      ),
    )
  const { master: _, ...alone } = veth
  expect(found(alone)).toEqual([
    `error not-in-bridge (pods)
"veth1", the host's end of "pods/c1/eth0", is not a port of bridge "cni0"
the container reaches nothing
ip link set veth1 master cni0`,
  ])
  expect(found({ ...veth, master: 9 })).toHaveLength(1)
  expect(found(veth)).toEqual([])
  expect(found(undefined)).toEqual([])
  expect(found({ ...alone, nsid: 1 })).toEqual([])
  expect(found({ ...alone, kind: "tun" })).toEqual([])
  const other = (...plugins: object[]) => ({ attachments: [attachmentOf({ ...cachedOf(plugins), link: alone })] })
  expect(found(alone, other({ type: "ptp" }))).toEqual([])
  expect(found(alone, { attachments: [attachmentOf({ link: alone, isAlive: false })] })).toEqual([])
  const networks = [
    { network: { name: "pods", plugins: [{ type: "bridge", raw: { type: "bridge", bridge: "br9" } }] } },
  ]
  expect(found(alone, { networks, attachments: [attachmentOf({ link: alone })] })[0]).toContain(
    'bridge "br9" does not exist',
  )
})

test("a bridge that was deleted, once for all containers of it", () => {
  const { master: _, ...alone } = veth
  const result = (...ips: object[]) => ({ interfaces: [], ips, routes: [], dns: {} }) as never
  const containers = (count: number, keys: object = { isGateway: true }) =>
    Array.from({ length: count }, (_, at) =>
      attachmentOf({
        ...cachedOf([{ type: "bridge", ...keys }]),
        containerId: `c${at + 1}`,
        link: { ...alone, name: `veth${at + 1}` },
        result: result({ address: `10.85.0.${at + 2}/24`, gateway: "10.85.0.1" }, { address: "fd00::2/64" }),
      }),
    )
  const found = (count: number, parts: Parts = {}) =>
    printed(
      checkBridges(inputOf({ members, attachments: containers(count, parts.members ? {} : undefined), ...parts })),
    )
  expect(found(1)).toEqual([
    `error bridge-missing (pods)
bridge "cni0" does not exist, but a container needs it: "pods/c1/eth0"
the containers can neither send nor receive packets
ip link add cni0 up type bridge; ip address replace 10.85.0.1/24 dev cni0; ip link set veth1 master cni0`,
  ])
  expect(found(5)).toHaveLength(1)
  expect(found(5)[0]).toContain('5 containers need it: "pods/c1/eth0", "pods/c2/eth0", "pods/c3/eth0" and 2 more\n')
  expect(found(5)[0]).toEndWith('for each in veth1 veth2 veth3 veth4 veth5; do ip link set "$each" master cni0; done')
  const withKeys = (keys: object) => found(0, { attachments: containers(2, keys) })[0]
  expect(withKeys({ hairpinMode: true, portIsolation: true })).toEndWith(
    'for each in veth1 veth2; do ip link set "$each" type bridge_slave hairpin on isolated on; done',
  )
  for (const keys of [{ vlan: 5 }, { vlanTrunk: [{ id: 7 }] }])
    expect(withKeys(keys)).toEndWith("\ncni reattach pods/c1/eth0 pods/c2/eth0")
  expect(found(1, { members: [memberOf({ type: "bridge" })] })[0]).toContain(
    "ip link add cni0 up type bridge; ip link set veth1 master",
  )
  // A link of another kind with the bridge's name is not a bridge.
  expect(found(1, { links: [linkOf(3, "cni0", { kind: "dummy" })] })).toHaveLength(1)
  const flannel = attachmentOf({
    ...cachedOf([{ type: "flannel" }]),
    link: alone,
    result: {
      ...(result() as object),
      interfaces: [{ name: "br7" }, { name: "veth1" }, { name: "eth0", sandbox: "/x" }],
    } as never,
  })
  expect(found(0, { attachments: [flannel] })[0]).toContain('bridge "br7" does not exist')
})

test("bridges that have lost the gateway of containers, for each gateway once", () => {
  const ips = [
    { address: "10.85.0.2/24", gateway: "10.85.0.1" },
    { address: "fd00::2/64", gateway: "fd00::9" },
    { address: "x" },
  ]
  const result = { interfaces: [], ips, routes: [], dns: {} }
  const found = (parts: Parts = {}, more: Partial<NodeAttachment> = {}) =>
    printed(
      checkGateways(inputOf({ members, links: [bridge], attachments: [attachmentOf({ result, ...more })], ...parts })),
    )
  expect(found()).toEqual([
    `error gateway-missing (pods)
bridge "cni0" does not have fd00::9, the containers' gateway
containers cannot reach other networks
ip address replace fd00::9/64 dev cni0 nodad`,
  ])
  expect(found({ attachments: [attachmentOf({ result }), attachmentOf({ result })] })).toHaveLength(1)
  expect(found({ links: [{ ...bridge, addresses: [...bridge.addresses, "fd00::9/128"] }] })).toEqual([])
  expect(found({}, { isAlive: false })).toEqual([])
  expect(found({}, { result: undefined as never })).toEqual([])
  expect(found({ links: [] })).toEqual([])
  const of = (keys: object, network?: string) => ({ members: [memberOf({ type: "bridge", ...keys }, network)] })
  expect(found(of({ isDefaultGateway: true }))).toHaveLength(1)
  expect(found(of({}))).toEqual([])
  expect(found(of({ isGateway: true }, "lan"))).toEqual([])
  expect(found({ members: [memberOf({ type: "ptp", isGateway: true })] })).toEqual([])
})

test("sizes of packets that do not go together", () => {
  const route = (dst: string, dev: string) => ({ dst, dev, protocol: 3 })
  const routes = [route("10.0.0.0/8", "cni0"), { dst: "0.0.0.0/0", protocol: 3 }, route("0.0.0.0/0", "eth0")]
  const found = (...links: ReturnType<typeof linkOf>[]) => printed(checkMtu(inputOf({ members, links, routes })))
  const eth0 = (mtu: number) => linkOf(2, "eth0", { mtu })
  expect(
    found(
      eth0(1400),
      bridge,
      linkOf(4, "veth1", { master: 3, mtu: 1400 }),
      linkOf(5, "veth2", { master: 3, mtu: 9000 }),
    ),
  ).toEqual([
    `warning mtu-mismatch
bridge "cni0" has MTU 1500, but 2 of its ports have other MTUs: "veth1", "veth2"
large packets between these containers are dropped, while small ones such as pings pass
for each in veth1 veth2; do ip link set "$each" mtu 1500; done`,
    `warning mtu-uplink
bridge "cni0" of 2 containers has MTU 1500, but "eth0", their uplink, has 1400: "veth1", "veth2"
connections hang if a firewall drops the ICMP messages of path MTU discovery
for each in cni0 veth1 veth2; do ip link set "$each" mtu 1400; done`,
  ])
  const odd = linkOf(4, "veth1", { master: 3, mtu: 1400 })
  const attachments = [attachmentOf({ link: odd, netns: "/run/netns/a b" })]
  expect(printed(checkMtu(inputOf({ members, links: [bridge, odd], attachments })))[0]).toEndWith(
    "ip link set veth1 mtu 1500; nsenter --net='/run/netns/a b' ip link set eth0 mtu 1500",
  )
  expect(found(bridge, linkOf(4, "veth1", { master: 3, mtu: 1400 })).join()).toContain(
    'but its port "veth1" has 1400\n',
  )
  expect(found(eth0(1500), bridge, veth)).toEqual([])
  expect(
    found(bridge, veth, linkOf(6, "veth3", { mtu: 1 }), linkOf(7, "veth4", { mtu: 1, master: 3, nsid: 1 })),
  ).toEqual([])
  expect(found(eth0(1), veth)).toEqual([])
  expect(checkMtu(inputOf({ members, links: [eth0(1), bridge] }))).toEqual([])
})
