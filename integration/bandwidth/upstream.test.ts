import { describe, expect } from "bun:test"
import { expectUnchanged, type PluginResult, succeed, takeSnapshot, testWith } from "../lab/mod.ts"
import { filterLines, ifbsOf, Limited, qdiscLines, qdiscsOf } from "./limited.ts"

// Debian's Go plugin 1.1.1 supports CNI 1.0.0. It supports neither units nor a default burst.
const upstream = { bin: "/usr/lib/cni/bandwidth" }
const needs = ["ifb", "tbf"] as const
const keys = { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: 16_000_000, egressBurst: 800_000 }
const create = () => Limited.create(keys, { cniVersion: "1.0.0" })

/** Returns the options of all qdiscs by link and kind, and the ifb devices. */
async function stateOf({ host }: Limited): Promise<object> {
  const qdiscs = await qdiscsOf(host)
  return {
    qdiscs: qdiscs.map(({ dev, kind, handle, options }) => ({ dev, kind, handle, options })),
    ifbs: await ifbsOf(host),
  }
}

describe("after upstream's ADD", () => {
  testWith(needs, "the kernel has what it has after an ADD here, CHECK passes, and DEL takes all of it", async () => {
    await using limited = await create()
    const { host, bandwidth } = limited
    const before = await takeSnapshot(host)
    const theirs = (await succeed(bandwidth.run("ADD", {}, upstream))).json as PluginResult
    const state = await stateOf(limited)
    expect(await bandwidth.check(theirs)).toMatchObject({ exitCode: 0, stdout: "" })
    await bandwidth.del({ prevResult: theirs })
    expectUnchanged(before, await takeSnapshot(host))
    const ours = await bandwidth.add()
    expect(await stateOf(limited)).toEqual(state)
    const names = (result: PluginResult) => result.interfaces.map(({ name, sandbox }) => ({ name, sandbox }))
    expect(names(ours)).toEqual(names(theirs))
  })

  for (const [how, more, call] of [
    ["without prevResult", { prevResult: undefined }, {}],
    ["without the namespace's path", {}, { netns: "" }],
  ] as const) {
    testWith(needs, `DEL ${how} takes the device`, async () => {
      await using limited = await create()
      const { host, bandwidth } = limited
      const theirs = (await succeed(bandwidth.run("ADD", {}, upstream))).json
      await bandwidth.del({ prevResult: theirs, ...more }, call)
      expect(await ifbsOf(host)).toEqual([])
    })
  }

  testWith(needs, "and its DEL, which leaves qdiscs and a filter that drops all packets, ADD here works", async () => {
    await using limited = await create()
    const { host, hostEnd, bandwidth } = limited
    await succeed(bandwidth.run("ADD", {}, upstream))
    await succeed(bandwidth.run("DEL", {}, upstream))
    expect(await qdiscLines(host)).toHaveLength(2)
    const result = await bandwidth.add()
    expect(await bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    const filters = await filterLines(host, hostEnd, ["parent", "ffff:"])
    expect(filters.filter((line) => line.startsWith("action"))).toHaveLength(1)
    await bandwidth.del()
    expect(await qdiscLines(host)).toEqual([])
  })

  testWith(needs, "and its DEL, DEL here takes what it has left", async () => {
    await using limited = await create()
    await succeed(limited.bandwidth.run("ADD", {}, upstream))
    await succeed(limited.bandwidth.run("DEL", {}, upstream))
    await limited.bandwidth.del()
    expect(await qdiscLines(limited.host)).toEqual([])
  })

  testWith(needs, "DEL of another interface of the container leaves its device", async () => {
    await using limited = await create()
    const { host, pod, ifbName } = limited
    const theirs = (await succeed(limited.bandwidth.run("ADD", {}, upstream))).json as PluginResult
    const other = await Limited.create(keys, { host, pod, ifName: "net1", cniVersion: "1.0.0" })
    await other.bandwidth.add()
    await other.bandwidth.del()
    await other.bandwidth.del({ prevResult: undefined })
    expect(await ifbsOf(host)).toEqual([ifbName])
    expect(await limited.bandwidth.check(theirs)).toMatchObject({ exitCode: 0, stdout: "" })
  })
})

describe("after an ADD here", () => {
  testWith(
    needs,
    "upstream's CHECK passes, and its DEL takes the device; the rest goes with the interface",
    async () => {
      await using limited = await create()
      const { host, bandwidth, maker } = limited
      const result = await bandwidth.add()
      await succeed(bandwidth.run("CHECK", { prevResult: result }, upstream))
      await succeed(bandwidth.run("DEL", { prevResult: result }, upstream))
      expect(await ifbsOf(host)).toEqual([])
      await maker.del()
      expect(await qdiscLines(host)).toEqual([])
    },
  )
})

// The objects of the Go plugin's releases 1.5.0 and 1.5.1, as `tc` commands. Later releases use tbf again.
testWith(needs, "DEL takes what upstream's v1.5 has made, and ADD replaces it", async () => {
  await using limited = await create()
  const { host, hostEnd, ifbName, bandwidth } = limited
  const makeIt = async () => {
    const tc = (...words: string[]) => host.exec("tc", words.join(" ").split(" "))
    await host.exec("ip", ["link", "add", ifbName, "up", "mtu", "1500", "txqueuelen", "1000", "type", "ifb"])
    for (const dev of [hostEnd, ifbName]) {
      await tc("qdisc add dev", dev, "root handle 1: htb default 30")
      await tc("class add dev", dev, "parent 1: classid 1:30 htb rate 8mbit ceil 16mbit burst 100000 cburst 100000")
      await tc("class add dev", dev, "parent 1: classid 1:1 htb rate 800gbit ceil 800gbit")
      await tc("filter add dev", dev, "parent 1: protocol ip prio 16 u32 match ip dst 10.9.0.0/16 flowid 1:1")
    }
    await tc("qdisc add dev", hostEnd, "ingress")
    await tc(
      "filter add dev",
      hostEnd,
      "parent ffff: prio 1 protocol all u32 match u32 0 0 action mirred egress redirect dev",
      ifbName,
    )
  }
  const before = await takeSnapshot(host)
  await makeIt()
  await bandwidth.del()
  expectUnchanged(before, await takeSnapshot(host))
  await makeIt()
  const result = await bandwidth.add()
  expect(await bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  expect((await qdiscLines(host)).filter((line) => line.includes("htb"))).toEqual([])
})
