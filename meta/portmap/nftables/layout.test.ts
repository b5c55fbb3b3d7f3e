import { expect, test } from "bun:test"
import { add, create, printTransaction } from "../../../pkg/nftables/mod.ts"
import { formatIp, parseCidr } from "../../../pkg/types/mod.ts"
import { type Mapping, printEnd, printHostEnd } from "../mapping.ts"
import { elementsOf, readMapping } from "./elements.ts"
import { layoutOf } from "./layout.ts"
import { skeleton } from "./plan.ts"

const web: Mapping = { protocol: "tcp", hostPort: 8080, containerPort: 80, family: undefined, hostIp: undefined }
const dns: Mapping = { ...web, protocol: "udp", hostPort: 53, containerPort: 5353 }

function address(text: string) {
  return parseCidr(text) ?? { ip: new Uint8Array(4), prefix: 0 }
}

function printed(family: "ip" | "ip6", cidr: string, hostIp: Uint8Array, options = { snat: true, masqAll: false }) {
  const layout = layoutOf(family)
  const part = { family, address: address(cidr), mappings: [web, { ...dns, hostIp }] }
  return printTransaction(elementsOf(layout, part, options).map(({ set, elements }) => create.elements(set, elements)))
}

test("the table of IPv6, as a file for nft", () => {
  const layout = layoutOf("ip6")
  expect(printTransaction([...skeleton(layout), add.rule(layout.hairpinRule(64))])).toBe(
    `add table ip6 cni_hostports { comment "CNI: elements are commented network/containerID/ifname"; }
add map ip6 cni_hostports ports { type inet_proto . inet_service : ipv6_addr . inet_service; comment "of every address of the host"; }
add map ip6 cni_hostports address_ports { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service; comment "of one address"; }
add set ip6 cni_hostports hairpin { type ipv6_addr . ipv6_addr; comment "in which network"; }
add set ip6 cni_hostports everybody { type ipv6_addr; comment "masqAll"; }
add chain ip6 cni_hostports conditions
add chain ip6 cni_hostports hostports
add chain ip6 cni_hostports prerouting { type nat hook prerouting priority dstnat; policy accept; }
add chain ip6 cni_hostports output { type nat hook output priority -100; policy accept; }
add chain ip6 cni_hostports postrouting { type nat hook postrouting priority srcnat; policy accept; }
flush chain ip6 cni_hostports hostports
flush chain ip6 cni_hostports prerouting
flush chain ip6 cni_hostports output
flush chain ip6 cni_hostports postrouting
add rule ip6 cni_hostports hostports ip6 daddr ::1 return comment "answers would get lost"
add rule ip6 cni_hostports prerouting fib daddr type local jump hostports comment "from elsewhere"
add rule ip6 cni_hostports output fib daddr type local jump hostports comment "from the host itself"
add rule ip6 cni_hostports hostports jump conditions comment "may end here"
add rule ip6 cni_hostports hostports dnat to ip6 daddr . meta l4proto . th dport map @address_ports comment "one address first"
add rule ip6 cni_hostports hostports dnat to meta l4proto . th dport map @ports comment "then all"
add rule ip6 cni_hostports postrouting ct status dnat ip6 daddr @everybody masquerade comment "from everywhere"
add rule ip6 cni_hostports postrouting ct status dnat ip6 saddr & ffff:ffff:ffff:ffff:: . ip6 daddr @hairpin masquerade comment "from beside the container, /64"
`,
  )
})

test("a mapping is one element, and a container one for each way of masquerading", () => {
  expect(printed("ip", "10.1.2.3/20", Uint8Array.of(192, 0, 2, 1))).toBe(
    `create element ip cni_hostports ports { tcp . 8080 : 10.1.2.3 . 80 }
create element ip cni_hostports address_ports { 192.0.2.1 . udp . 53 : 10.1.2.3 . 5353 }
create element ip cni_hostports hairpin { 10.1.0.0 . 10.1.2.3 }
create element ip cni_hostports localhost { 10.1.2.3 }
`,
  )
  expect(printed("ip6", "fd00::2/64", new Uint8Array(16).with(0, 0x20))).toBe(
    `create element ip6 cni_hostports ports { tcp . 8080 : fd00::2 . 80 }
create element ip6 cni_hostports address_ports { 2000:: . udp . 53 : fd00::2 . 5353 }
create element ip6 cni_hostports hairpin { fd00:: . fd00::2 }
`,
  )
})

test("masqAll is one element in the place of the others, and without snat there is none", () => {
  const host = Uint8Array.of(192, 0, 2, 1)
  const lines = (options: { snat: boolean; masqAll: boolean }) =>
    printed("ip", "10.1.2.3/20", host, options).trim().split("\n").slice(2)
  expect(lines({ snat: true, masqAll: true })).toEqual(["create element ip cni_hostports everybody { 10.1.2.3 }"])
  expect(lines({ snat: false, masqAll: true })).toEqual([])
})

test("an element is read back as the mapping that it was", () => {
  const layout = layoutOf("ip")
  const part = {
    family: "ip" as const,
    address: address("10.1.2.3/20"),
    mappings: [web, { ...dns, hostIp: Uint8Array.of(192, 0, 2, 1) }],
  }
  const read = elementsOf(layout, part, { snat: false, masqAll: false }).flatMap(({ elements }) =>
    elements.map(readMapping),
  )
  expect(read.map((found) => found && `${printHostEnd(found)} to ${printEnd(found.ip, found.port)}`)).toEqual([
    "8080/tcp to 10.1.2.3:80",
    "192.0.2.1:53/udp to 10.1.2.3:5353",
  ])
  expect(read.map((found) => found && formatIp(found.ip))).toEqual(["10.1.2.3", "10.1.2.3"])
  expect(readMapping({ key: [Uint8Array.of(1), Uint8Array.of(0, 1)] })).toBeUndefined()
})
