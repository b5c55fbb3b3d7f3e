import { expect, test } from "bun:test"
import { checkFiles, checkPools, checkRoutes, checkSubnets } from "./networks.ts"
import { attachmentOf, inputOf, linkOf, memberOf, type Parts, printed } from "./testing/inputs.ts"

const networkOf = (name: string, subnets: readonly string[] = [], type = "bridge") => ({
  file: `/etc/cni/net.d/${name}.conflist`,
  network: { name, plugins: [{ type: "tuning" }, { type }] },
  pools: [{ rangeSets: subnets.map((subnet) => [{ subnet }]) }],
})

test("files that no runtime can use", () => {
  const networks = [{ file: "/etc/cni/net.d/10-x.conf", error: "10-x.conf: no JSON", pools: [] }, networkOf("pods")]
  expect(printed(checkFiles(inputOf({ networks })))).toEqual([
    `error config-broken
"/etc/cni/net.d/10-x.conf" cannot be used: 10-x.conf: no JSON
runtimes skip it, or load no network at all
correct the file, or move it away: cni lint /etc/cni/net.d/10-x.conf prints the line and the column`,
  ])
})

test("a directory without any network, unless it could not be read", () => {
  const found = (parts: Parts) => checkFiles(inputOf(parts)).map(({ rule, what }) => `${rule}: ${what}`)
  expect(found({})).toEqual(['config-none: no network configuration in "/etc/cni/net.d"'])
  expect(found({ networks: [networkOf("pods")] })).toEqual([])
  expect(found({ unread: [{ what: "networks", reason: "EACCES" }] })).toEqual([])
})

test("networks that hide others of the same name", () => {
  const networks = [{ ...networkOf("pods"), file: "/etc/cni/net.d/10-a.conf" }, networkOf("lan"), networkOf("pods")]
  expect(printed(checkFiles(inputOf({ networks })))).toEqual([
    `warning config-twice (pods)
network "pods" is in 10-a.conf and in pods.conflist of /etc/cni/net.d
"10-a.conf" takes effect, and changes of the others do not
rename one of the networks, or move the unintended file away: /etc/cni/net.d/10-a.conf, /etc/cni/net.d/pods.conflist`,
  ])
})

test("networks that share addresses", () => {
  const overlap = (a: object, b: object, c: object = networkOf("c")) =>
    printed(checkSubnets(inputOf({ networks: [a, b, c] })))
  const text = (a: string, b: string) => `error subnets-overlap (a)
networks "a" (${a}) and "b" (${b}) overlap: "a", "b"
containers of both get the same addresses, and the host sends packets for one to the other
give one of them another subnet, in /etc/cni/net.d/a.conflist or /etc/cni/net.d/b.conflist`
  const [wide, narrow] = ["10.0.0.0/8", "10.85.0.0/24"]
  expect(overlap(networkOf("a", [narrow]), networkOf("b", ["192.0.2.0/24", wide]))).toEqual([text(narrow, wide)])
  expect(overlap(networkOf("a", [wide]), networkOf("b", [narrow]))).toEqual([text(wide, narrow)])
  expect(overlap(networkOf("a", [wide]), networkOf("a", [narrow]))).toEqual([])
  expect(overlap(networkOf("a", [narrow]), networkOf("b", ["10.85.1.0/24", "::/0", "nonsense"]))).toEqual([])
  const unread = { ...networkOf("b", [wide]), network: undefined }
  expect(overlap(networkOf("a", [narrow]), unread)).toEqual([])
})

test("routes of the host into a network of containers that lead elsewhere", () => {
  const found = (dst: string, more: object = { dev: "eth1" }, parts: Parts = {}) =>
    printed(
      checkRoutes(
        inputOf({
          networks: [networkOf("pods", ["10.85.0.0/24"])],
          routes: [{ dst, protocol: 3, ...more }],
          ...parts,
        }),
      ),
    )
  const text = (dst: string, by: string) => `error route-overlap (pods)
the host's route to ${dst} by ${by} overlaps 10.85.0.0/24 of network "pods"
either the containers or the route's destination cannot be reached
give the network another subnet, in /etc/cni/net.d/pods.conflist, or change the route`
  expect(found("10.85.0.128/25")).toEqual([text("10.85.0.128/25", "eth1")])
  expect(found("10.0.0.0/8", { gateway: "192.0.2.1" })).toEqual([text("10.0.0.0/8", "192.0.2.1")])
  expect(found("0.0.0.0/0")).toEqual([])
  expect(found("0.0.0.0/1", {}, { networks: [networkOf("pods", ["10.85.0.0/24"])] })).toHaveLength(1)
  expect(found("10.86.0.0/24")).toEqual([])
  expect(found("nonsense")).toEqual([])
  const own = { members: [memberOf({ type: "bridge", bridge: "eth1" })], links: [linkOf(1, "eth1")] }
  expect(found("10.85.0.0/24", { dev: "eth1" }, own)).toEqual([])
  expect(found("10.85.0.0/24", { dev: "eth1" }, { ...own, links: [linkOf(1, "eth1", { nsid: 1 })] })).toHaveLength(1)
  const vlan = { ...own, links: [linkOf(2, "eth1.100")] }
  expect(found("10.85.0.0/24", { dev: "eth1.100" }, vlan)).toEqual([])
  expect(found("10.85.0.0/24", { dev: "eth2.100" }, { ...own, links: [linkOf(2, "eth2.100")] })).toHaveLength(1)
  const end = { attachments: [attachmentOf({ link: linkOf(4, "eth1") }), attachmentOf()] }
  expect(found("10.85.0.0/24", { dev: "eth1" }, end)).toEqual([])
  const inside = { attachments: [attachmentOf({ link: linkOf(4, "eth1", { nsid: 1 }) })] }
  expect(found("10.85.0.0/24", { dev: "eth1" }, inside)).toHaveLength(1)
  for (const type of ["macvlan", "ipvlan", "vlan", "host-device", "dhcp"]) {
    expect(found("10.85.0.0/24", {}, { networks: [networkOf("pods", ["10.85.0.0/24"], type)] })).toEqual([])
  }
  expect(
    found("10.85.0.0/24", {}, { networks: [{ ...networkOf("pods", ["10.85.0.0/24"]), network: undefined }] }),
  ).toEqual([])
})

test("pools of which much is used", () => {
  const found = (used: number, total: bigint, reclaimable = 0) =>
    printed(
      checkPools(inputOf({ stores: [{ network: "pods", rangeSets: [{ ranges: "A-B", used, total, reclaimable }] }] })),
    )
  const remedy = 'add a range to "ranges" in its configuration: cni ipam ls pods shows the holders of the addresses'
  expect(found(4, 5n)).toEqual([
    `warning pool-nearly-full (pods)\n4 of 5 addresses of A-B are used (80 %)\ncontainers get no address when the pool is full\n${remedy}`,
  ])
  expect(found(5, 5n)).toEqual([
    `error pool-full (pods)\n5 of 5 addresses of A-B are used (100 %)\nfurther containers get no address\n${remedy}`,
  ])
  expect(found(5, 5n, 1).join()).toStartWith("warning pool-nearly-full")
  expect(found(6, 5n, 1).join()).toStartWith("error pool-full")
  expect(found(79, 100n)).toEqual([])
  const orphans = [
    attachmentOf({ orphan: ["lease without namespace"] }),
    attachmentOf({ network: "lan", orphan: ["lease of an earlier boot"] }),
  ]
  const stores = [{ network: "pods", rangeSets: [{ ranges: "A-B", used: 4, total: 5n, reclaimable: 0 }] }]
  const gone = (attachments: typeof orphans) => printed(checkPools(inputOf({ stores, attachments })))[0]
  expect(gone(orphans)).toEndWith("\ncni gc --auto pods")
  expect(gone(orphans.slice(1))).toEndWith(`\n${remedy}`)
  expect(found(0, 0n)).toEqual([])
})
