import { expect } from "bun:test"
import { linkOf, testWith } from "../lab/mod.ts"
import { filterLines, ifbsOf, Limited, qdiscLines, qdiscsOf } from "./limited.ts"

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
    rate: 1_000_000, // bytes per second
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
  // the Go plugin adds a second action that never runs, which other programs must understand (KW-BW6)
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

testWith(needs, "rates of more than 32 bits, and the smallest that upstream takes", async () => {
  await using limited = await Limited.create({ ingressRate: "40Gbit", egressRate: 16, egressBurst: 12 })
  const result = await limited.bandwidth.add()
  const limits = (await qdiscsOf(limited.host)).filter(({ kind }) => kind === "tbf")
  const options = new Map(limits.map(({ dev, options }) => [dev, options]))
  expect(options.get(limited.hostEnd)).toMatchObject({ rate: 5_000_000_000, burst: 100_000_000 })
  expect(options.get(limited.ifbName)).toMatchObject({ rate: 2, burst: 1 })
  expect(await limited.bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
})

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
    expect(rates.get("eth0 tbf")).toBe(2_000_000) // the packets that the container sends
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
