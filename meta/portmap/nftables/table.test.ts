import { expect, test } from "bun:test"
import { printTransaction } from "../../../pkg/nftables/mod.ts"
import { AF_INET6 } from "../../../pkg/types/mod.ts"
import { addTable, tableLayout } from "./table.ts"

test("the table of IPv6, as a file for nft", () => {
  const layout = tableLayout(AF_INET6)
  expect(printTransaction(addTable(layout, [64]))).toBe(
    `add table ip6 cni_hostports { comment "CNI: elements are commented network/containerID/ifname"; }
add map ip6 cni_hostports ports { type inet_proto . inet_service : ipv6_addr . inet_service; comment "of every address of the host"; }
add map ip6 cni_hostports address_ports { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service; comment "of one address"; }
add set ip6 cni_hostports hairpin { type ipv6_addr . ipv6_addr; comment "in which network"; }
add set ip6 cni_hostports everybody { type ipv6_addr; comment "masqAll"; }
add chain ip6 cni_hostports conditions
add chain ip6 cni_hostports hostports
add chain ip6 cni_hostports prerouting { type nat hook prerouting priority -95; policy accept; }
add chain ip6 cni_hostports output { type nat hook output priority -95; policy accept; }
add chain ip6 cni_hostports postrouting { type nat hook postrouting priority srcnat; policy accept; }
flush chain ip6 cni_hostports hostports
flush chain ip6 cni_hostports prerouting
flush chain ip6 cni_hostports output
flush chain ip6 cni_hostports postrouting
add rule ip6 cni_hostports hostports ip6 daddr ::1 return comment "answers would get lost"
add rule ip6 cni_hostports prerouting fib daddr type local jump hostports comment "after services, from elsewhere"
add rule ip6 cni_hostports output fib daddr type local jump hostports comment "after services, from the host itself"
add rule ip6 cni_hostports hostports jump conditions comment "may end here"
add rule ip6 cni_hostports hostports ct label set 127 dnat to ip6 daddr . meta l4proto . th dport map @address_ports comment "one address first"
add rule ip6 cni_hostports hostports ct label set 127 dnat to meta l4proto . th dport map @ports comment "then all"
add rule ip6 cni_hostports postrouting ct label 127 ip6 daddr @everybody masquerade comment "mapped here, from everywhere"
add rule ip6 cni_hostports postrouting ct label 127 ip6 saddr & ffff:ffff:ffff:ffff:: . ip6 daddr @hairpin masquerade comment "mapped here, from beside the container, /64"
`,
  )
})
