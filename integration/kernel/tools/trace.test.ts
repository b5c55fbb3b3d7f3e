/** The way of a packet as `cni trace` reads it from links and routes. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { testWith } from "../../lab/mod.ts"
import {
  BY_GATEWAY,
  batch,
  createScene,
  DIRECTLY,
  filterFrames,
  LEFT,
  none,
  type Packet,
  ports,
  type Scene,
  waysOf,
} from "./tracing.fixture.ts"

/** Rules that publish `ports`, as simple as they can be. */
const publishing = `table inet publishing {
  chain c {
    type nat hook prerouting priority -100
    ip daddr { 10.85.0.1, 192.0.2.2 } tcp dport 8080 dnat ip to 10.85.0.3:80
    ip daddr 192.0.2.2 udp dport 53 dnat ip to 10.85.0.3:5353
    ip6 daddr fd00::1 tcp dport 8080 dnat ip6 to [fd00::3]:80
  }
}`
const publisher = "by rule H of chain inet publishing c"

let scene: Scene
beforeAll(async () => {
  scene = await createScene()
  await scene.host.exec("nft", ["-f", "-"], { input: publishing })
})
afterAll(() => scene.host[Symbol.asyncDispose]())
const ways = (...packet: Packet) => waysOf(scene, ...packet).map((hop) => hop.replace(/rule \d+/, "rule H"))

test.each<[string, Packet, string[]]>([
  [
    "to another container of the bridge",
    ["10.85.0.3:80"],
    [...DIRECTLY, 'end: it reaches pod shop/db by port "veth2"'],
  ],
  [
    "to itself",
    ["10.85.0.2:80"],
    ['container: from 10.85.0.2 by "lo", directly', "end: it stays in the container: the address is its own"],
  ],
  [
    "to no listener",
    ["10.85.0.77"],
    [
      ...DIRECTLY,
      'end: no container of bridge "br0" is known to have 10.85.0.77: nothing answers ARP, unless it is beyond a port of the bridge [no]',
    ],
  ],
  [
    "to the host",
    ["10.85.0.1:22"],
    [
      ...DIRECTLY,
      ...none("prerouting"),
      "host: 10.85.0.1 is an address of the host",
      ...none("input"),
      "end: it reaches the host itself; whether a process listens there is not checked",
    ],
  ],
  [
    "out",
    ["192.0.2.1:80"],
    [
      ...BY_GATEWAY,
      ...none("prerouting"),
      'host: forwarded from "br0" to "out0"',
      ...none("forward"),
      `end: it leaves the host by "out0"; ${LEFT}`,
    ],
  ],
  [
    "out, from an address without a prefix length",
    ["192.0.2.1:80", { addresses: ["10.85.0.2"] }],
    [
      ...BY_GATEWAY,
      ...none("prerouting"),
      'host: forwarded from "br0" to "out0"',
      ...none("forward"),
      `end: it leaves the host by "out0"; ${LEFT}`,
    ],
  ],
  [
    "out by a gateway",
    ["203.0.113.9"],
    [
      ...BY_GATEWAY,
      ...none("prerouting"),
      'host: forwarded from "br0" to "out0" to gateway 192.0.2.1',
      ...none("forward"),
      `end: it leaves the host by "out0" to gateway 192.0.2.1; ${LEFT}`,
    ],
  ],
  [
    "out, where no record knows the container",
    ["192.0.2.1:80", { addresses: ["10.86.0.2"] }],
    [
      ...BY_GATEWAY,
      ...none("prerouting"),
      'host: forwarded from "br0" to "out0"',
      ...none("forward"),
      'end: it leaves the host by "out0"',
    ],
  ],
  [
    "where the host has no route",
    ["198.51.100.1"],
    [...BY_GATEWAY, ...none("prerouting"), "end: the host has no route to 198.51.100.1 [no]"],
  ],
  ["where the container has none", ["2001:db8::1"], ["end: the container has no route to 2001:db8::1 [no]"]],
  [
    "to a published port of any address",
    ["192.0.2.2:8080"],
    [
      ...BY_GATEWAY,
      `nat: port 8080 of the host leads to 10.85.0.3:80 (pods/c2/eth0), ${publisher}`,
      'host: forwarded from "br0" to "br0"',
      ...none("forward"),
      'end: it reaches pod shop/db, 10.85.0.3 port 80, by "br0"',
    ],
  ],
  [
    "to a published port of this address",
    ["192.0.2.2:53", {}, ports, true],
    [
      ...BY_GATEWAY,
      `nat: port 53 of the host leads to 10.85.0.3:5353 (pods/c2/eth0), ${publisher}`,
      'host: forwarded from "br0" to "br0"',
      ...none("forward"),
      'end: it reaches pod shop/db, 10.85.0.3 port 5353, by "br0"',
    ],
  ],
  [
    "by an interface that does not exist",
    ["10.85.0.3", { ifName: "eth7" }],
    ['end: the container has no interface "eth7" [no]'],
  ],
  [
    "by an interface without an end on the host",
    ["10.85.0.3", { link: undefined as never }],
    [
      DIRECTLY[0] ?? "",
      "end: the interface has no end on the host: packets leave by its parent; whether 10.85.0.3 answers is unknown",
    ],
  ],
  [
    "from an address of the wrong family",
    ["fd00::3", { addresses: ["10.85.0.2/24"] }],
    ['container: from fd00::2 by "eth0", directly', BY_GATEWAY[1] ?? "", 'end: it reaches pod shop/db by port "veth2"'],
  ],
])("a packet goes %s", (_, packet, expected) => {
  expect(ways(...packet)).toEqual(expected)
})

testWith(["br_netfilter"], "frames pass the packet filter where the setting of their family says so", async () => {
  await filterFrames(scene.host, "1")
  const passing = (call: string) => [
    `bridge: net.bridge.${call} is 1: frames pass the packet filter as well`,
    ...none("forward"),
    'end: it reaches pod shop/db by port "veth2"',
  ]
  expect(ways("10.85.0.3:80").slice(2)).toEqual(passing("bridge-nf-call-iptables"))
  expect(ways("fd00::3").slice(2)).toEqual(passing("bridge-nf-call-ip6tables"))
  await filterFrames(scene.host, "0")
})

test("a port of UDP is not one of TCP, nor one of another address of this, nor one of IPv6 of IPv4", () => {
  const toHost = (...packet: Packet) => ways(...packet).at(-1)
  const HOST = "end: it reaches the host itself; whether a process listens there is not checked"
  expect(toHost("192.0.2.2:53")).toBe(HOST)
  expect(toHost("10.85.0.1:53", {}, ports, true)).toBe(HOST)
  const six = ways("[fd00::1]:8080")
  expect(six.at(-2)).toBe(`nat: port 8080 of the host leads to [fd00::3]:80 (pods/c2/eth0), ${publisher}`)
  expect(six.at(-1)).toBe("end: net/ipv6/conf/all/forwarding is 0: the host forwards nothing [no]")
})

test("a published port whose rules were flushed leads nowhere, with any record of it", () => {
  const own = { ...(ports[0] as (typeof ports)[0]), hostPort: "192.0.2.2:9090/tcp" }
  expect(ways("192.0.2.2:9090", {}, [own]).at(-1)).toContain("it reaches the host itself")
})

/** Temporary changes on the host or in the container, and the findings during each. */
test.each<[string, "host" | "pod", string, string, string, string[]]>([
  [
    "eth0 is down",
    "pod",
    "link set eth0 down",
    "link set eth0 up",
    "10.85.0.3",
    ['end: "eth0" in the container is down [no]'],
  ],
  [
    "the host's end is down",
    "host",
    "link set veth1 down",
    "link set veth1 up",
    "10.85.0.3",
    [DIRECTLY[0] ?? "", `end: "veth1", the host's end, is down [no]`],
  ],
  [
    "the bridge is down",
    "host",
    "link set br0 down",
    "link set br0 up",
    "10.85.0.3",
    [DIRECTLY[0] ?? "", 'end: bridge "br0" is down [no]'],
  ],
  [
    "the other's end is down",
    "host",
    "link set veth2 down",
    "link set veth2 up",
    "10.85.0.3",
    [...DIRECTLY, 'end: port "veth2" of pod shop/db is down [no]'],
  ],
  [
    "the other's end is in no bridge",
    "host",
    "link set veth2 nomaster",
    "link set veth2 master br0",
    "10.85.0.3",
    [...DIRECTLY, 'end: pod shop/db has 10.85.0.3, and no port of bridge "br0" [no]'],
  ],
])("%s", async (_, where, change, back, to, expected) => {
  const on = where === "host" ? scene.host : scene.pod
  await batch(on, [change])
  try {
    expect(ways(to)).toEqual(expected)
  } finally {
    await batch(on, [back])
    if (where === "pod") await batch(on, ["route add default via 10.85.0.1"])
  }
})

test.each([
  ["net.ipv4.ip_forward", "net/ipv4/ip_forward is 0: the host forwards nothing", "1"],
  ["net.ipv4.conf.br0.forwarding", 'net/ipv4/conf/br0/forwarding is 0: the host forwards nothing from "br0"', "1"],
])("%s is 0", async (key, said, back) => {
  await scene.host.exec("sysctl", ["-qw", `${key}=0`])
  try {
    expect(ways("192.0.2.1:80").at(-1)).toBe(`end: ${said} [no]`)
  } finally {
    await scene.host.exec("sysctl", ["-qw", `${key}=${back}`])
  }
})
