import { expect, test } from "bun:test"
import { examples } from "./examples.fixture.ts"
import { printTransaction } from "./print.ts"
import { remove } from "./rule-set.ts"

test("the masquerade reads as a file for nft", () => {
  expect(printTransaction(examples.masquerade)).toBe(
    [
      'add table ip cni_masquerade { comment "CNI: elements are commented network/containerID/ifname"; }',
      "add chain ip cni_masquerade postrouting { type nat hook postrouting priority srcnat; policy accept; }",
      "flush chain ip cni_masquerade postrouting",
      'add set ip cni_masquerade containers { type ipv4_addr; comment "whose traffic is masqueraded"; }',
      'add set ip cni_masquerade networks_16 { type ipv4_addr . ipv4_addr; comment "each with its own network"; }',
      "add rule ip cni_masquerade postrouting ip saddr . ip daddr & 255.255.0.0 @networks_16 return" +
        ' comment "to its own network, /16"',
      "add rule ip cni_masquerade postrouting ip saddr @containers ip daddr != 224.0.0.0/4 masquerade" +
        ' comment "from containers to everywhere else"',
      'create element ip cni_masquerade containers { 10.1.0.2 comment "net/c1/eth0" }',
      'create element ip cni_masquerade networks_16 { 10.1.0.2 . 10.1.0.0 comment "net/c1/eth0" }',
      "",
    ].join("\n"),
  )
})

test("maps and the connection's state read as in a file for nft", () => {
  expect(printTransaction(examples["port mapping"])).toBe(
    [
      "create table ip t",
      "create chain ip t entry",
      "add chain ip t prerouting { type nat hook prerouting priority dstnat; policy accept; }",
      "create map ip t ports { type inet_proto . inet_service : ipv4_addr . inet_service; }",
      "add map ip t hosts { type ipv4_addr : ipv4_addr; }",
      'add element ip t ports { tcp . 8080 comment "net/c1/eth0" : 10.1.0.2 . 80 }',
      "add rule ip t prerouting fib daddr type local dnat to meta l4proto . th dport map @ports",
      "add rule ip t prerouting dnat to ip daddr map @hosts",
      'add rule ip t entry ct status dnat ct state established,related counter accept comment "known"',
      "add rule ip t entry ct direction original meta mark != 0x2000 ip saddr 10.128.0.0/9 ip daddr != 10.0.0.0/8 return",
      "",
    ].join("\n"),
  )
})

test("verdict maps and marks read as in a file for nft", () => {
  expect(printTransaction(examples.policies)).toBe(
    [
      "add table inet fw",
      "add chain inet fw allow",
      "add chain inet fw forward { type filter hook forward priority -10; policy accept; }",
      "add set inet fw admitted { type ipv6_addr; }",
      "add map inet fw within { type ifname . ifname : verdict; }",
      'create element inet fw within { "br0" . "br0" comment "net/c1/eth0" : drop }',
      "add rule inet fw allow meta mark set meta mark | 0x1000 accept",
      'create element inet fw within { "br1" . "br1" : goto allow }',
      'add rule inet fw allow meta mark set meta mark & 0xffffefff comment "afterwards"',
      "add rule inet fw forward iifname . oifname vmap @within",
      "add rule inet fw forward meta nfproto ipv6 ip6 saddr @admitted goto allow",
      'delete element inet fw within { "br0" . "br0" }',
      "delete table inet fw",
      "",
    ].join("\n"),
  )
})

test("what is deleted is named without its properties", () => {
  expect(printTransaction(examples.removal)).toBe(
    [
      'delete element bridge spoof senders { "veth0" . 02:00:00:00:00:01 }',
      "flush chain bridge spoof ingress",
      "delete chain bridge spoof ingress",
      "delete set bridge spoof senders",
      "delete table bridge spoof",
      "flush chain ip t prerouting",
      "delete element ip t ports { tcp . 8080 }",
      "delete table ip t",
      "",
    ].join("\n"),
  )
  const chain = { table: { family: "inet", name: "x" }, name: "y" } as const
  expect(printTransaction([remove.rule({ chain, handle: 12n })])).toBe("delete rule inet x y handle 12\n")
})
