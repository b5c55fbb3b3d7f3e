import { afterAll, beforeAll, expect, test } from "bun:test"
import { type ContainerNamespace, chooseIptables, waitFor } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const OUTSIDE = "192.0.2.2"
/** A table of the host with one base chain for forwarded packets. */
const forward = (...rules: string[]) =>
  `table inet site { chain c { type filter hook forward priority 0; policy accept; ${rules.join("; ")}; }; }`
const strict = (...rules: string[]) => forward(...rules).replace("policy accept", "policy drop")

/** Intended rules on nodes of sites. With each of them, containers reach each other and the outside. */
const ruleSets: Readonly<Record<string, string>> = {
  "a block of the metadata service": forward("ip daddr 169.254.169.254 drop"),
  "a block of the metadata service for containers alone": forward('iifname "cni0" ip daddr 169.254.169.254 drop'),
  "a block of the metadata service, of their network": forward("ip saddr 10.85.0.0/24 ip daddr 169.254.169.254 reject"),
  "a block of outgoing mail": forward('iifname "cni0" tcp dport 25 counter drop'),
  "a block of outgoing mail by network": forward("ip saddr 10.85.0.0/24 tcp dport { 25, 465, 587 } reject"),
  "invalid packets dropped": forward("ct state invalid drop"),
  "invalid packets of containers dropped": forward('iifname "cni0" ct state invalid drop'),
  "one pod's policy": `table inet site {
    chain pod { ct state established,related accept; tcp dport 80 accept; meta l4proto icmp accept; drop; }
    chain c { type filter hook forward priority 0; policy accept; ip daddr 10.85.0.3 jump pod; }
  }`,
  "a port of one pod that is closed": forward("ip daddr 10.85.0.3 tcp dport 9090 drop"),
  "two bridges apart": forward('iifname "cni0" oifname "cni1" drop', 'iifname "cni1" oifname "cni0" drop'),
  "two networks apart": forward("ip saddr 10.85.0.0/24 ip daddr 10.87.0.0/24 drop"),
  "an accept by the bridge's number before a policy that drops": strict(
    'iif "cni0" accept',
    'oif "cni0" accept',
    'iif "cni1" accept',
    'oif "cni1" accept',
  ),
  "accepts by a set before a policy that drops": strict(
    'iifname { "cni0", "cni1" } accept',
    'oifname { "cni0", "cni1" } accept',
  ),
  "accepts by the network before a drop of all": forward(
    "ip saddr { 10.85.0.0/24, 10.87.0.0/24 } accept",
    "ip daddr { 10.85.0.0/24, 10.87.0.0/24 } accept",
    "drop",
  ),
  "accepts by a named set of networks before a policy that drops": `table inet site {
    set pods { type ipv4_addr; flags interval; elements = { 10.85.0.0/24, 10.87.0.0/24 }; }
    chain c { type filter hook forward priority 0; policy drop; ip saddr @pods accept; ip daddr @pods accept; }
  }`,
  "accepts by a map of verdicts before a policy that drops": strict(
    'iifname vmap { "cni0" : accept, "up0" : accept, "cni1" : accept }',
  ),
  "what they begin, and its answers, before a policy that drops": strict(
    "ct state { established, related } accept",
    'iifname { "cni0", "cni1" } oifname "up0" ct state new accept',
    'iifname "cni0" oifname "cni0" accept',
    "ct status dnat accept",
  ),
  "a policy that drops IPv6, which they have none of":
    "table ip6 site { chain c { type filter hook forward priority 0; policy drop; }; }",
  "a drop of all in a chain that no packet comes to": `table inet site {
    chain unused { drop; }
    chain c { type filter hook forward priority 0; policy accept; }
  }`,
  "a drop in a chain that some packets are sent to": `table inet site {
    chain telnet { iifname "cni0" drop; }
    chain c { type filter hook forward priority 0; policy accept; tcp dport 23 goto telnet; }
  }`,
  "a drop of what the host itself gets": `table inet site {
    chain c { type filter hook input priority 0; policy accept; iifname "cni0" tcp dport 22 drop; }
  }`,
  "a drop of what the host itself sends by another interface": `table inet site {
    chain c { type filter hook output priority 0; policy accept; oifname "eth9" drop; }
  }`,
  "networks that a set blocks": `table inet site {
    set blocked { type ipv4_addr; flags interval; elements = { 198.51.100.0/24, 203.0.113.0/24 }; }
    chain c { type filter hook forward priority 0; policy accept; iifname "cni0" ip daddr @blocked drop; }
  }`,
  "a limit of new connections": forward('iifname "cni0" ct state new limit rate over 1000/second drop'),
  "a quota that is not used up": `table inet site {
    quota most { over 1000 mbytes; }
    chain c { type filter hook forward priority 0; policy accept; iifname "cni0" quota name "most" drop; }
  }`,
  "a log of all that containers send": forward('iifname "cni0" log prefix "pods " counter'),
  "a drop of other interfaces": forward('iifname "docker0" drop', 'iifname != { "cni0", "cni1", "up0" } drop'),
  "sources that are not theirs": forward('iifname "cni0" ip saddr != 10.85.0.0/24 drop'),
  "a port outside that is not tracked": `table ip site {
    chain c { type filter hook prerouting priority -300; iifname "cni0" udp dport 8472 notrack; }
  }`,
  "ports of others that are mapped": `table ip site {
    chain c { type nat hook prerouting priority -110; iifname "eth9" tcp dport 8001 dnat to 192.0.2.9; }
  }`,
  "a source for another network": `table ip site {
    chain c { type nat hook postrouting priority 90; ip saddr 10.99.0.0/16 snat to 192.0.2.77; }
  }`,
}

let lab: NodeLab
let pods: ContainerNamespace[]

beforeAll(async () => {
  lab = await NodeLab.create()
  await chooseIptables(lab.host, "nf_tables")
  const outside = await lab.host.addContainer()
  await lab.host.exec("ip", ["link", "add", "up0", "up", "type", "veth", "peer", "name", "eth0", "netns", outside.name])
  await lab.host.exec("ip", ["address", "add", "192.0.2.1/24", "dev", "up0"])
  await lab.host.exec("ip", ["route", "add", "default", "via", OUTSIDE])
  await outside.exec("sh", ["-ec", `ip address add ${OUTSIDE}/24 dev eth0; ip link set eth0 up`])
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.87.0.0/24" }]] }
  const plugins = [{ ...podsNetwork.plugins[0], bridge: "cni1", ipam }]
  await lab.writeNetwork("20-second.conflist", { ...podsNetwork, name: "second", plugins })
  pods = [await lab.addPod("a"), await lab.addPod("b"), await lab.addPod("c", "second")]
})

afterAll(async () => lab[Symbol.asyncDispose]())

test.each(Object.entries(ruleSets))(
  "%s: containers reach what is outside, and nothing is found [S302]",
  async (_, rules) => {
    await lab.host.exec("nft", ["-f", "-"], { input: rules })
    try {
      for (const to of [OUTSIDE, "10.85.0.3"])
        await waitFor(
          async () => (await pods[0]?.tryExec("ping", ["-c1", "-W1", to]))?.exitCode === 0,
          `${to} to answer`,
        )
      expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
    } finally {
      await lab.host.exec("sh", ["-ec", "nft list tables | grep ' site$' | sed 's/^/delete /' | nft -f -"])
    }
  },
)
