import { describe, expect } from "bun:test"
import { expectUnchanged, fail, takeSnapshot, testWith } from "../lab/mod.ts"
import { filterLines, Limited } from "./limited.ts"

const needs = ["ifb", "tbf"] as const
const both = { ingressRate: "8M", egressRate: "8M" }
const foreignRoot = "root handle 7: tbf rate 1mbit burst 10kb limit 10kb".split(" ")

describe("an ADD that fails leaves nothing, when", () => {
  const cases: [string, object, (limited: Limited) => Promise<unknown>, RegExp, number][] = [
    ["there is no prevResult", { prevResult: undefined }, async () => {}, /prevResult is missing/, 7],
    [
      "the interface no longer exists",
      {},
      ({ pod }) => pod.exec("ip", ["link", "del", "eth0"]),
      /the interface does not exist/,
      999,
    ],
    [
      "another program limits the host's end",
      {},
      ({ host, hostEnd }) => host.exec("tc", ["qdisc", "add", "dev", hostEnd, ...foreignRoot]),
      /Cannot limit "veth.*it has a qdisc of another program: tbf 7: rate 1000000bit/,
      999,
    ],
    [
      "another program limits the interface in the container",
      { shapeIn: "container" },
      ({ pod }) => pod.exec("tc", ["qdisc", "add", "dev", "eth0", ...foreignRoot]),
      /"tc qdisc del dev eth0 root" removes it/,
      999,
    ],
    // ADD fails after it has limited the first direction, because a filter of another type has the last free priority.
    [
      "the filter cannot be added",
      {},
      async ({ host, hostEnd }) => {
        await host.exec("tc", ["qdisc", "add", "dev", hostEnd, "clsact"])
        const bpf = ["protocol", "all", "prio", "65535", "bpf", "bytecode", "1,6 0 0 4294967295", "flowid", "1:1"]
        await host.exec("tc", ["filter", "add", "dev", hostEnd, "ingress", ...bpf])
      },
      /Cannot redirect the packets that "veth/,
      999,
    ],
    // The last step that can fail, because version 0.2.0 has no results without addresses.
    [
      "the result cannot be written, and a hook of another program has the filter",
      { cniVersion: "0.2.0", prevResult: { cniVersion: "0.2.0" } },
      ({ host, hostEnd }) => host.exec("tc", ["qdisc", "add", "dev", hostEnd, "clsact"]),
      /Cannot convert the result|no valid IP addresses/,
      1,
    ],
    ["the limit does not fit", { ingressBurst: "4GiB" }, async () => {}, /burst cannot be more than 4GB/, 7],
  ]
  for (const [what, keys, setUp, says, code] of cases) {
    testWith(needs, what, async () => {
      await using limited = await Limited.create(both)
      const { host, pod, hostEnd, bandwidth } = limited
      await setUp(limited)
      const [before, inside, filters] = [
        await takeSnapshot(host),
        await takeSnapshot(pod),
        await filterLines(host, hostEnd, ["ingress"]),
      ]
      const error = await fail(bandwidth.run("ADD", keys))
      expect(`${error.msg}; ${error.details ?? ""}`).toMatch(says)
      expect(error.code).toBe(code)
      expectUnchanged(before, await takeSnapshot(host))
      expectUnchanged(inside, await takeSnapshot(pod))
      expect(await filterLines(host, hostEnd, ["ingress"])).toEqual(filters)
    })
  }
})
