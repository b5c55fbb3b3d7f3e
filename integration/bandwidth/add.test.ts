import { expect } from "bun:test"
import { expectUnchanged, linkOf, takeSnapshot, testWith } from "../lab/mod.ts"
import { filterLines, ifbsOf, Limited, qdiscLines, qdiscsOf, upstreamName } from "./limited.ts"

const both = { ingressRate: 8_000_000, ingressBurst: 800_000, egressRate: "16Mbit", egressBurst: "200KB" }
const needs = ["ifb", "tbf"] as const

testWith(needs, "both directions: what tc shows is what it shows after upstream's plugin", async () => {
  await using limited = await Limited.create(both)
  const { host, pod, hostEnd, ifbName } = limited
  const { interfaces } = await limited.bandwidth.add()
  const lines = [`${hostEnd} ingress ffff: ffff:fff1`, `${hostEnd} tbf 1: root`, `${ifbName} tbf 1: root`]
  expect(await qdiscLines(host)).toEqual(lines.sort())
  const qdiscs = await qdiscsOf(host)
  expect(qdiscs.find(({ dev, root }) => dev === hostEnd && root)?.options).toMatchObject({
    rate: 1_000_000, // bytes a second
    burst: 100_000,
    lat: 25_000,
  })
  expect(qdiscs.find(({ dev }) => dev === ifbName)?.options).toMatchObject({
    rate: 2_000_000,
    burst: 200_000,
    lat: 25_000,
  })
  const filters = await filterLines(host, hostEnd, ["parent", "ffff:"])
  expect(filters[0]).toBe("filter protocol all pref 1 u32 chain 0")
  expect(filters).toContain("match 00000000/00000000 at 0")
  // upstream has a second action, which never runs and which others have to understand (KW-BW6)
  const actions = filters.filter((line) => line.startsWith("action"))
  expect(actions).toEqual([`action order 1: mirred (Egress Redirect to device ${ifbName}) stolen`])
  expect(await qdiscsOf(pod)).toEqual([])

  const ifb = await linkOf(host, ifbName)
  expect(interfaces.slice(0, -1)).toEqual(limited.prevResult.interfaces)
  expect(interfaces.at(-1)).toEqual({ name: ifbName, mac: ifb.address, mtu: 1500 })
  expect(ifb).toMatchObject({ mtu: 1500, txqlen: 1000, ifalias: `lab/${pod.name}/eth0` })
  expect(ifb.flags).toContain("UP")
  await limited.bandwidth.check({ ...limited.prevResult, interfaces })
})

testWith(needs, "only towards the container: one qdisc, no device, and the result is the earlier one", async () => {
  await using limited = await Limited.create({ ingressRate: 8_000_000 })
  expect(await limited.bandwidth.add()).toEqual(limited.prevResult)
  expect(await qdiscLines(limited.host)).toEqual([`${limited.hostEnd} tbf 1: root`])
  expect(await ifbsOf(limited.host)).toEqual([])
})

testWith(needs, "only from the container: the host's end keeps the queue it has, and gets a hook", async () => {
  await using limited = await Limited.create({
    runtimeConfig: { bandwidth: { egressRate: 8_000_000, egressBurst: 4294967295 } },
  })
  const { host, hostEnd, ifbName } = limited
  await limited.bandwidth.add()
  expect(await qdiscLines(host)).toEqual([`${ifbName} tbf 1: root`, `${hostEnd} ingress ffff: ffff:fff1`].sort())
  // containerd says 4294967295 where none is asked for: with that, 512 MB would pass at full speed.
  const [tbf] = (await qdiscsOf(host)).filter(({ kind }) => kind === "tbf")
  expect(tbf?.options.burst).toBe(32 * 1024)
})

testWith(needs, "no limit, no change", async () => {
  const zeros = { ingressRate: 0, ingressBurst: 0, egressRate: 0, egressBurst: 0 }
  for (const keys of [{}, zeros, { runtimeConfig: { bandwidth: zeros } }, { shapedSubnets: ["10.0.0.0/8"] }]) {
    await using limited = await Limited.create(keys)
    const before = await takeSnapshot(limited.host)
    expect(await limited.bandwidth.add()).toEqual(limited.prevResult)
    expectUnchanged(before, await takeSnapshot(limited.host))
    expect(await limited.bandwidth.check(limited.prevResult)).toMatchObject({ exitCode: 0, stdout: "" })
  }
})

testWith(needs, "rates of more than 32 bits, and the smallest that upstream takes", async () => {
  await using limited = await Limited.create({ ingressRate: "40Gbit", egressRate: 16, egressBurst: 12 })
  const result = await limited.bandwidth.add()
  const limits = (await qdiscsOf(limited.host)).filter(({ kind }) => kind === "tbf")
  const options = new Map(limits.map(({ dev, options }) => [dev, options]))
  expect(options.get(limited.hostEnd)).toMatchObject({ rate: 5_000_000_000, burst: 100_000_000 })
  expect(options.get(limited.ifbName)).toMatchObject({ rate: 2, burst: 1 })
  expect(await limited.bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
})

testWith(
  needs,
  "two interfaces of a container in one network have a device each, which do not mind each other",
  async () => {
    await using first = await Limited.create(both)
    const { host, pod } = first
    const second = await Limited.create({ egressRate: "1M" }, { host, pod, ifName: "net1" })
    const results = [await first.bandwidth.add(), await second.bandwidth.add()]
    const names = results.map(({ interfaces }) => interfaces.at(-1)?.name ?? "")
    expect(names[0]).toBe(upstreamName("lab", pod.name))
    expect(names[1]).toMatch(/^bwp[0-9a-f]{12}$/)
    expect(await ifbsOf(host)).toEqual([...names].sort())
    await first.bandwidth.del()
    expect(await ifbsOf(host)).toEqual([names[1] ?? ""])
    expect(await second.bandwidth.check(results[1] ?? {})).toMatchObject({ exitCode: 0, stdout: "" })
    await second.bandwidth.del()
    expect(await qdiscLines(host)).toEqual([])
  },
)

for (const maker of ["macvlan", "ipvlan"] as const) {
  testWith([...needs, maker], `${maker}, which has no end on the host, is limited in the container`, async () => {
    await using limited = await Limited.create(both, { maker })
    const { host, pod, ifbName } = limited
    const result = await limited.bandwidth.add()
    expect(await qdiscsOf(host)).toEqual([])
    expect(await qdiscLines(pod)).toEqual([
      `${ifbName} tbf 1: root`,
      "eth0 ingress ffff: ffff:fff1",
      "eth0 tbf 1: root",
    ])
    const rates = new Map((await qdiscsOf(pod)).map(({ dev, kind, options }) => [`${dev} ${kind}`, options.rate]))
    expect(rates.get("eth0 tbf")).toBe(2_000_000) // what the container sends
    expect(rates.get(`${ifbName} tbf`)).toBe(1_000_000)
    const { address } = await linkOf(pod, ifbName)
    expect(result.interfaces.at(-1)).toEqual({ name: ifbName, mac: address, mtu: 1500, sandbox: pod.path })
    expect(await limited.bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    const asked = await limited.bandwidth.run("ADD", { shapeIn: "host" })
    expect(asked.json).toMatchObject({ code: 7, msg: 'Cannot limit "eth0" on the host: it has no peer there' })
    await limited.bandwidth.del()
    expect(await qdiscsOf(pod)).toEqual([])
    expect(await ifbsOf(pod)).toEqual([])
  })
}

testWith(
  needs,
  "subnets: classes for those that are limited and those that are not, and filters of the peers' addresses",
  async () => {
    const subnets = ["10.9.0.0/16", "fd00:1::/56"]
    await using limited = await Limited.create({ ...both, runtimeConfig: { bandwidth: {} }, unshapedSubnets: subnets })
    const { host, hostEnd, ifbName, bandwidth } = limited
    const result = await bandwidth.add()
    for (const [dev, rate, offsets] of [
      [hostEnd, "8Mbit", [12, 8, 12]],
      [ifbName, "16Mbit", [16, 24, 28]],
    ] as const) {
      const { stdout } = await host.exec("tc", ["class", "show", "dev", dev])
      expect(stdout).toMatch(new RegExp(`class htb 1:30 root .*rate ${rate} ceil ${rate} `))
      expect(stdout).toMatch(/class htb 1:1 root .*rate 800Gbit ceil 800Gbit /)
      const [v4, high, low] = offsets
      const filters = await filterLines(host, dev, [])
      expect(filters.filter((line) => line.startsWith("match"))).toEqual([
        `match fd000001/ffffffff at ${high}`,
        `match 00000000/ffffff00 at ${low}`,
        `match 0a090000/ffff0000 at ${v4}`,
      ])
      expect(filters.filter((line) => line.includes("flowid 1:1"))).toHaveLength(2)
    }
    expect((await qdiscsOf(host)).filter(({ kind }) => kind === "htb").map(({ options }) => options.default)).toEqual([
      "0x30",
      "0x30",
    ])
    expect(await bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
    await bandwidth.del()
    expect(await qdiscsOf(host)).toEqual([])
  },
)
