import { describe, expect, test } from "bun:test"
import { expectUnchanged, fail, HostNamespace, type Namespace, takeSnapshot, testWith } from "../lab/mod.ts"
import { filterLines, ifbsOf, Limited, qdiscLines, qdiscsOf } from "./limited.ts"

const both = { ingressRate: "8M", egressRate: "8M" }
const needs = ["ifb", "tbf"] as const
const withSubnets = { shapedSubnets: ["10.9.0.0/16", "fd00:1::/56"] }

/** Everything that a limit may leave, on the host and in the container. */
async function expectNothing({ host, pod }: Limited): Promise<void> {
  for (const where of [host, pod] as Namespace[]) {
    expect(await qdiscsOf(where)).toEqual([])
    expect(await ifbsOf(where)).toEqual([])
  }
}

const kinds = [
  ["on the host", both],
  ["by subnets", { ...both, ...withSubnets }],
  ["in the container", { ...both, shapeIn: "container" }],
] as const

describe("DEL takes everything back", () => {
  const ways: [string, object, object][] = [
    ["as it was called", {}, {}],
    ["without prevResult", { prevResult: undefined }, {}],
    ["without limits in the configuration", { ingressRate: undefined, egressRate: undefined, shapeIn: undefined }, {}],
    [
      "with a configuration that is broken by now",
      { ingressRate: "fast", egressBurst: -1, shapeIn: 7, shapedSubnets: 1 },
      {},
    ],
    ["of version 0.3.1", { cniVersion: "0.3.1" }, {}],
  ]
  for (const [where, limits] of kinds) {
    for (const [how, keys, call] of ways) {
      testWith(needs, `that is ${where}, ${how}; a second one succeeds, and so does ADD again`, async () => {
        await using limited = await Limited.create(limits)
        const { host, pod, bandwidth } = limited
        const [before, inside] = [await takeSnapshot(host), await takeSnapshot(pod)]
        for (let time = 0; time < 2; time++) {
          const result = await bandwidth.add()
          expect(await bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
          await bandwidth.del(keys, call)
          await bandwidth.del(keys, call)
          expectUnchanged(before, await takeSnapshot(host))
          expectUnchanged(inside, await takeSnapshot(pod))
        }
      })
    }
  }

  testWith(needs, "without the path of a namespace that lives, by the owner's name on the host's end", async () => {
    for (const keys of [both, { ingressRate: "8M" }, { egressRate: "8M" }]) {
      await using limited = await Limited.create(keys)
      await limited.bandwidth.add()
      await limited.bandwidth.del({ prevResult: undefined }, { netns: "" })
      await expectNothing(limited)
    }
  })

  testWith(needs, "when the namespace no longer exists, or the interface", async () => {
    await using limited = await Limited.create(both)
    const { host, pod } = limited
    await limited.bandwidth.add()
    await pod.exec("ip", ["link", "del", "eth0"])
    await limited.bandwidth.del()
    expect(await ifbsOf(host)).toEqual([])
    await using other = await Limited.create(both)
    await other.bandwidth.add()
    await other.host.removeContainer(other.pod)
    await other.bandwidth.del()
    expect(await ifbsOf(other.host)).toEqual([])
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

describe("a hook of another program", () => {
  const dropPing = ["protocol", "ip", "prio", "3", "u32", "match", "ip", "protocol", "1", "0xff", "flowid", "1:1"]
  for (const kind of ["clsact", "ingress"]) {
    testWith(needs, `${kind}: it is used, after its filters, and stays as it is`, async () => {
      await using limited = await Limited.create(both)
      const { host, hostEnd, ifbName, bandwidth } = limited
      await host.exec("tc", ["qdisc", "add", "dev", hostEnd, kind])
      const parent = kind === "clsact" ? "ffff:fff2" : "ffff:"
      await host.exec("tc", ["filter", "add", "dev", hostEnd, "parent", parent, ...dropPing])
      const [before, filters] = [await takeSnapshot(host), await filterLines(host, hostEnd, ["ingress"])]
      const result = await bandwidth.add()
      const added = await filterLines(host, hostEnd, ["ingress"])
      expect(added.filter((line) => line.startsWith("filter")).at(-1)).toContain("pref 4 u32")
      expect(added).toContain(`action order 1: mirred (Egress Redirect to device ${ifbName}) stolen`)
      expect(await bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
      await bandwidth.del()
      expectUnchanged(before, await takeSnapshot(host))
      expect(await filterLines(host, hostEnd, ["ingress"])).toEqual(filters)
    })
  }
})

testWith(needs, "a clsact without filters is another program's all the same", async () => {
  await using limited = await Limited.create(both)
  await limited.host.exec("tc", ["qdisc", "add", "dev", limited.hostEnd, "clsact"])
  const before = await takeSnapshot(limited.host)
  await limited.bandwidth.add()
  await limited.bandwidth.del()
  expectUnchanged(before, await takeSnapshot(limited.host))
})

testWith(needs, "ADD again replaces what an ADD before it has left, with new limits", async () => {
  await using limited = await Limited.create(both)
  const { host, bandwidth, hostEnd, ifbName } = limited
  for (const keys of [withSubnets, {}, { egressRate: undefined }, { shapeIn: undefined, ingressRate: "9M" }]) {
    const result = await bandwidth.add(keys)
    expect(await bandwidth.check(result, keys)).toMatchObject({ exitCode: 0, stdout: "" })
  }
  expect(await qdiscLines(host)).toEqual(
    [`${ifbName} tbf 1: root`, `${hostEnd} ingress ffff: ffff:fff1`, `${hostEnd} tbf 1: root`].sort(),
  )
  expect(await filterLines(host, hostEnd, ["parent", "ffff:"])).toHaveLength(6)
})

describe("GC", () => {
  const valid = (...kept: Limited[]) => ({
    "cni.dev/valid-attachments": kept.map(({ pod }) => ({ containerID: pod.name, ifname: "eth0" })),
  })
  for (const [where, limits] of kinds) {
    testWith(needs, `takes the limits of what is not valid, ${where}, and leaves the others`, async () => {
      await using host = await HostNamespace.create()
      const kept = await Limited.create(limits, { host })
      const stale = await Limited.create(limits, { host })
      const result = await kept.bandwidth.add()
      const before = await qdiscLines(host)
      await stale.bandwidth.add()
      expect(await kept.bandwidth.run("GC", valid(kept))).toMatchObject({ exitCode: 0, stdout: "" })
      expect(await qdiscLines(host)).toEqual(before)
      expect(await ifbsOf(stale.pod)).toEqual([])
      expect(await kept.bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
      await stale.bandwidth.del()
      expect(await qdiscsOf(stale.pod)).toEqual([])
    })
  }
})

describe("STATUS", () => {
  testWith(needs, "is well where the kernel has what the limits need, and changes nothing", async () => {
    for (const [, limits] of kinds) {
      await using limited = await Limited.create(limits)
      const before = await takeSnapshot(limited.host)
      expect(await limited.bandwidth.run("STATUS")).toMatchObject({ exitCode: 0, stdout: "" })
      expectUnchanged(before, await takeSnapshot(limited.host))
    }
  })

  test("tells limits that no ADD can take", async () => {
    await using limited = await Limited.create()
    expect(await fail(limited.bandwidth.run("STATUS", { egressRate: 1 }))).toMatchObject({ code: 7 })
  })
})
