import { expect, test } from "bun:test"
import { affectedBy, type Finding } from "../doctor/mod.ts"
import { attachmentOf } from "../doctor/testing/inputs.ts"
import { withFaults } from "./faults.ts"
import type { Graph } from "./model.ts"
import { memberOf, segmentOf } from "./testing/graphs.ts"

const uplink = { id: "uplink eth0", name: "eth0", kind: "device", mtu: 1500, isUp: true, addresses: [], routes: [] }
const graph: Graph = {
  uplinks: [uplink],
  segments: [
    segmentOf([memberOf("c1", { hostEnd: "veth1" }), memberOf("c2", { hostEnd: "veth2" })], {
      id: "segment cni0",
      kind: "bridge",
      title: "cni0",
    }),
    segmentOf([memberOf("x", { network: "lan" })], { id: "segment ptp lan", title: "lan", networks: ["lan"] }),
  ],
}

function marked(finding: Partial<Finding>): string[] {
  const whole = { rule: "link-down", severity: "error", what: "w", why: "y", remedy: "m", ...finding } as const
  const { uplinks, segments, faults } = withFaults(graph, [whole])
  const boxes = [...uplinks, ...segments, ...segments.flatMap(({ members }) => members)]
  const found = boxes.filter((box) => box.faults !== undefined)
  for (const { faults } of found) expect(faults).toMatchObject([{ rule: "link-down", severity: "error" }])
  return [...(faults === undefined ? [] : ["node"]), ...found.map(({ id }) => id)].sort()
}

test.each([
  ["a container that it affects", { affected: [affectedBy(attachmentOf())] }, ["attachment pods/c1/eth0"]],
  [
    "the containers that it affects and their bridge, the cause",
    {
      cause: "bridge cni0",
      affected: [affectedBy(attachmentOf()), affectedBy(attachmentOf({ containerId: "c2" }))],
    },
    ["attachment pods/c1/eth0", "attachment pods/c2/eth0", "segment cni0"],
  ],
  [
    "a container by its name",
    { network: "pods", what: 'ports do not lead to "pods/c2/eth0" (pod a/b)' },
    ["attachment pods/c2/eth0"],
  ],
  ["a bridge by its name", { what: 'bridge "cni0" is down' }, ["segment cni0"]],
  ["a host's end by its name", { what: '"veth2" has MTU 1400' }, ["attachment pods/c2/eth0"]],
  ["an uplink by its name", { affected: [{ name: '"eth0"' }] }, ["uplink eth0"]],
  ["a network", { network: "lan", what: 'the pool of "lan" is full' }, ["segment ptp lan"]],
  ["nothing in particular: the node", { what: "forwarding is off" }, ["node"]],
  [
    "a container's eth0, which is not the host's",
    { affected: [affectedBy(attachmentOf())], what: 'no "eth0"' },
    ["attachment pods/c1/eth0"],
  ],
  ["a container that is not drawn", { affected: [affectedBy(attachmentOf({ containerId: "c9" }))] }, []],
  ["part of a name alone: the node", { what: "cni01 and veth22" }, ["node"]],
] as const)("a finding marks %s", (_, finding, ids) => {
  expect(marked(finding)).toEqual([...ids])
})

test("a graph without findings stays as it is", () => {
  expect(withFaults(graph, [])).toEqual(graph)
})

test("the fault of a container does not name the others that have it", () => {
  const affected = ["c1", "c2"].map((containerId) => affectedBy(attachmentOf({ containerId })))
  const finding = { rule: "link-down", severity: "error", what: "w", why: "y", remedy: "m", affected } as const
  const { segments } = withFaults(graph, [{ ...finding, ofMany: (count) => `${count} containers have no port` }])
  const [first] = segments.flatMap(({ members }) => members)
  expect(first?.faults?.map(({ text }) => text)).toEqual(["2 containers have no port: y"])
})
