import { describe, expect } from "bun:test"
import { type Namespace, testWith } from "../lab/mod.ts"
import { ifbsOf, Limited, qdiscLines, qdiscsOf } from "./limited.ts"

const both = { ingressRate: "8M", egressRate: "8M" }
const needs = ["ifb", "tbf"] as const

/** Checks that no object of a limit is left on the host or in the container. */
async function expectNothing({ host, pod }: Limited): Promise<void> {
  for (const where of [host, pod] as Namespace[]) {
    expect(await qdiscsOf(where)).toEqual([])
    expect(await ifbsOf(where)).toEqual([])
  }
}

describe("DEL takes everything back", () => {
  testWith(needs, "without the path of a namespace that lives, by the owner's name on the host's end", async () => {
    for (const keys of [both, { ingressRate: "8M" }, { egressRate: "8M" }]) {
      await using limited = await Limited.create(keys)
      await limited.bandwidth.add()
      await limited.bandwidth.del({ prevResult: undefined }, { netns: "" })
      await expectNothing(limited)
    }
  })

  testWith(["ifb", "tbf"], "from a device that goes back to the host with nothing on it", async () => {
    await using limited = await Limited.create(both, { maker: "host-device" })
    await limited.bandwidth.add()
    expect(await qdiscLines(limited.pod)).toHaveLength(3)
    await limited.bandwidth.del()
    await limited.maker.del()
    await expectNothing(limited)
  })

  testWith(needs, "and nothing that other programs have put there", async () => {
    await using limited = await Limited.create({ ingressRate: "8M" })
    const { host, hostEnd, bandwidth } = limited
    await bandwidth.add()
    await host.exec("tc", [
      "qdisc",
      "replace",
      "dev",
      hostEnd,
      "root",
      "handle",
      "7:",
      "tbf",
      ..."rate 1mbit burst 10kb limit 10kb".split(" "),
    ])
    await host.exec("tc", ["qdisc", "add", "dev", hostEnd, "clsact"])
    const before = await qdiscLines(host)
    await bandwidth.del()
    expect(await qdiscLines(host)).toEqual(before)
  })
})
