import { expect, test } from "bun:test"
import { countersOf, memberOf, segmentOf } from "./testing/graphs.ts"
import { treeOf } from "./tree.ts"

const fault = { rule: "link-down", severity: "error", text: '"veth1" is down: nothing arrives' } as const
const segment = segmentOf(
  [
    memberOf("web", {
      namespace: "shop",
      hostEnd: "veth1",
      addresses: ["10.85.0.2/24"],
      ports: ["80→80/tcp"],
      faults: [fault],
    }),
    memberOf("gone", { orphan: ["lease without namespace"], counters: countersOf([1, 2]) }),
  ],
  { kind: "bridge", title: "cni0", caption: "bridge", addresses: ["10.85.0.1/24"], masquerades: true, isUp: false },
)
const uplink = {
  id: "uplink eth0",
  name: "eth0",
  kind: "device",
  mtu: 1500,
  isUp: true,
  addresses: ["192.0.2.2/24"],
  routes: ["default via 192.0.2.1"],
  faults: [fault],
}

test("a graph as text: the host's interfaces, and below each segment its containers, with a mark at each fault", () => {
  const warning = { ...fault, severity: "warning" } as const
  expect(treeOf({ uplinks: [uplink], segments: [segment], faults: [warning] }, {})).toBe(
    `! WARNING link-down: "veth1" is down: nothing arrives
eth0  device  192.0.2.2/24  default via 192.0.2.1
! ERROR link-down: "veth1" is down: nothing arrives

cni0  bridge  10.85.0.1/24  pods  masquerade  down
  NAMESPACE  CONTAINER  INTERFACE  ADDRESS       PORTS      HOST   TRAFFIC       FAULT
  shop       web        eth0       10.85.0.2/24  80→80/tcp  veth1  -             link-down
  -          gone       eth0       -             -          -      ↓ 2 B  ↑ 2 B  lease without namespace
`,
  )
  expect(treeOf({ uplinks: [uplink], segments: [segment] }, { colour: true })).toContain("\x1b[31;1mlink-down\x1b[0m")
})

test("a node without attachments says so", () => {
  expect(treeOf({ uplinks: [], segments: [] }, {})).toBe("No attachments\n")
})
