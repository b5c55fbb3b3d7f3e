import { expect, test } from "bun:test"
import { countersOf, memberOf, segmentOf, some } from "./testing/graphs.ts"
import { bytesText, countersText, memberDetails, segmentDetails, uplinkDetails } from "./text.ts"

test.each([
  [0n, "0 B"],
  [999n, "999 B"],
  [1000n, "1.0 kB"],
  [1049n, "1.0 kB"],
  [1050n, "1.1 kB"],
  [99_900n, "99.9 kB"],
  [100_000n, "100 kB"],
  [999_499n, "999 kB"],
  [1_000_000n, "1.0 MB"],
  [3_100_000_000n, "3.1 GB"],
  [2_000_000_000_000n, "2.0 TB"],
  [5_000_000_000_000_000n, "5000 TB"],
])("%d bytes are %s", (bytes, text) => {
  expect(bytesText(bytes)).toBe(text)
})

test("received and sent bytes, in one line", () => {
  expect(countersText(countersOf([9, 1500, 9], [9, 20, 9]))).toBe("↓ 1.5 kB  ↑ 20 B")
})

test("details of a container: what is known of it, and no more", () => {
  expect(memberDetails(memberOf("c1"))).toBe("pods/c1/eth0\nnamespace: unknown\naddresses: none\nmasquerade: no")
  const whole = memberOf("web", {
    containerId: "c1",
    hostEnd: "veth1",
    mtu: 1400,
    vlanId: 0,
    isAlive: false,
    masquerades: true,
    addresses: ["10.1.0.2/16", "fd00::2/64"],
    ports: ["80→80/tcp", "53→53/udp"],
    orphan: ["first", "second"],
    counters: countersOf([1, 2, 0], [3, 4000, 1]),
    config: { name: "pods", plugins: [] },
  })
  expect(memberDetails(whole)).toBe(
    `pods/c1/eth0
pod: web
orphan: first, second
namespace: gone
addresses: 10.1.0.2/16, fd00::2/64
published ports: 80→80/tcp, 53→53/udp
masquerade: yes
host's end: veth1, MTU 1400
VLAN 0
received: 1 packets, 2 B
sent: 3 packets, 4.0 kB, 1 dropped

{
  "name": "pods",
  "plugins": []
}`,
  )
  expect(memberDetails(memberOf("c1", { isAlive: true, ports: ["80→80/tcp"], orphan: ["x"] }))).toBe(
    "pods/c1/eth0\norphan: x\nnamespace: alive\naddresses: none\npublished ports: 80→80/tcp\nmasquerade: no",
  )
})

test("details of a segment and of an uplink", () => {
  expect(segmentDetails(segmentOf([]))).toBe(
    "ptp: pods\nnetworks: pods\n0 interfaces, 0 published ports, masquerade no",
  )
  const more = {
    networks: ["a", "b"],
    ports: 3,
    masquerades: true,
    mtu: 9000,
    addresses: ["10.1.0.1/16", "fd00::1/64"],
  }
  expect(segmentDetails(segmentOf([memberOf("c1")], { ...more, counters: countersOf([1, 2]) }))).toBe(
    `ptp: pods
networks: a, b
1 interfaces, 3 published ports, masquerade yes
MTU 9000, up
addresses: 10.1.0.1/16, fd00::1/64
received: 1 packets, 2 B
sent: 1 packets, 2 B`,
  )
  const [eth0, eth1] = some.uplinks
  expect(eth0 && uplinkDetails(eth0)).toBe(
    `eth0: device, MTU 1500, up
addresses: 192.0.2.2/24, 2001:db8::2/64
route: default via 192.0.2.1
received: 5 packets, 3.1 MB
sent: 7 packets, 1.2 kB, 1 dropped`,
  )
  expect(eth1 && uplinkDetails(eth1)).toBe("eth1: vlan, MTU 1400, down\naddresses: none")
})
