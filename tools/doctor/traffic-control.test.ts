import { describe, expect, test } from "bun:test"
import type { TrafficFilter } from "../node/mod.ts"
import { attachmentOf, inputOf, linkOf, memberOf, printed } from "./testing/inputs.ts"
import { checkQueues, checkTrafficFilters } from "./traffic-control.ts"

const end = linkOf(4, "veth1", { master: 2 })
const parts = {
  members: [memberOf({ type: "bridge" })],
  links: [
    linkOf(2, "cni0", { kind: "bridge" }),
    end,
    linkOf(7, "bwp0", { kind: "ifb" }),
    linkOf(8, "bwp1", { kind: "ifb", isUp: false }),
  ],
  attachments: [attachmentOf({ link: end })],
}
const filterOf = (more: Partial<TrafficFilter>): TrafficFilter => ({
  ...{ link: end, place: "ingress", effect: "drops", isForAll: true },
  filter: { kind: "matchall", handle: 1, parent: 0xfffffff2, protocol: 3, priority: 7 },
  ...more,
})
const found = (more: Partial<TrafficFilter>) =>
  printed(checkTrafficFilters(inputOf({ ...parts, traffic: [filterOf(more)] })))

describe("filters of traffic control", () => {
  test("one that drops all is an error, and the remedy is words", () => {
    expect(found({})).toEqual([
      `error tc-filter
a tc filter at "veth1" (ingress, pref 7, matchall) drops all packets
it runs before all rules of the packet filter, and no rule shows the packets that it drops
it may be intended; if not, delete it, with the program that created it; "tc filter show dev veth1 ingress" shows it`,
    ])
  })

  test.each<[string, Partial<TrafficFilter>, RegExp | undefined]>([
    ["a part is dropped", { isForAll: false }, /^warning tc-filter\n.* drops the packets that it matches\n/],
    ["a limit", { effect: "redirects", target: 7 }, undefined],
    [
      "a limit that is down",
      { effect: "redirects", target: 8 },
      /^error .*\n.* to "bwp1", which is down: they are dropped\n/,
    ],
    [
      "a redirection to another container",
      { effect: "redirects", target: 4 },
      /sends all packets to "veth1" instead\n/,
    ],
    [
      "a redirection to an index of nothing",
      { effect: "redirects", target: 99 },
      /to an interface that does not exist \(index 99\): they/,
    ],
    ["a policer", { effect: "decides", by: "police" }, /^warning tc-filter\n.* limits all packets\n/],
    [
      "a program",
      { effect: "decides", by: "dropper" },
      /^warning tc-filter\n.* lets dropper decide about all packets\n/,
    ],
    ["a program of Cilium", { effect: "decides", by: "cil_from_container-veth1" }, undefined],
    ["a program of Calico", { effect: "decides", by: "cali_tc_preamble" }, undefined],
  ])("%s", (_, more, says) => {
    const [text] = found(more)
    if (says) expect(text).toMatch(says)
    else expect(text).toBeUndefined()
  })
})

test.each([
  ["blackhole", 1],
  ["netem", 1],
  ["plug", 1],
  ["tbf", 0],
  ["htb", 0],
  ["fq_codel", 0],
  ["noqueue", 0],
])("the qdisc %s at an end: %d findings", (qdisc, count) => {
  const link = { ...end, qdisc }
  const attachments = [attachmentOf({ link })]
  expect(checkQueues(inputOf({ ...parts, links: [link], attachments }))).toHaveLength(count)
})
