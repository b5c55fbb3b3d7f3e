import { expect, test } from "bun:test"
import { answering, fail, type Namespace, waitFor } from "../lab/mod.ts"
import { LanHost } from "./lan.ts"

const lan = ["192.0.2.9", "2001:db8:2::9"]
const [first, second] = [
  ["192.0.2.100", "2001:db8:2::100"],
  ["192.0.2.101", "2001:db8:2::101"],
] as const
const host = ["192.0.2.1", "2001:db8:2::1"]

async function modeOf(pod: Namespace): Promise<unknown> {
  type Shown = { linkinfo: { info_kind: string; info_data: { mode: string } } }
  const [link] = await pod.json<Shown[]>("ip", ["-d", "-j", "link", "show", "eth0"])
  return `${link?.linkinfo.info_kind} ${link?.linkinfo.info_data.mode}`
}

test.each([
  ["bridge", { mode: "bridge" }, second],
  ["bridge", {}, second],
  ["bridge", { mode: "" }, second],
  ["private", { mode: "private" }, []],
  ["vepa", { mode: "vepa" }, []],
])(
  "mode %s by %j: the network is reached, and of the neighbor on the same master %j",
  async (mode, keys, neighbour) => {
    await using net = await LanHost.create()
    const [a, b] = [await net.attach(keys), await net.attach(keys)]
    expect((await a.attachment.add()).ips.map(({ address }) => address)).toEqual([
      "192.0.2.100/24",
      "2001:db8:2::100/64",
    ])
    await b.attachment.add()
    expect(await modeOf(a.pod)).toBe(`macvlan ${mode}`)
    expect(await answering(a.pod, [...lan, ...second, ...host], [...lan, ...neighbour])).toEqual([...lan, ...neighbour])
    expect(await answering(net.lan, [...first, ...second], [...first, ...second])).toEqual([...first, ...second])
  },
)

test("mode vepa: a switch that sends frames back by the port that they came from makes neighbors of them", async () => {
  await using net = await LanHost.create()
  await net.lan.exec("ip", ["link", "add", "switch", "type", "bridge"])
  await net.lan.exec("ip", ["link", "set", "port0", "master", "switch"])
  await net.lan.exec("ip", ["link", "set", "switch", "up"])
  await net.lan.exec("bridge", ["link", "set", "dev", "port0", "hairpin", "on"])
  const [a, b] = [await net.attach({ mode: "vepa" }), await net.attach({ mode: "vepa" })]
  await a.attachment.add()
  await b.attachment.add()
  expect(await answering(a.pod, second, second)).toEqual([...second])
})

test("mode passthru: one container has the master, with its MAC, to itself; the next is told why it cannot", async () => {
  await using net = await LanHost.create()
  const [{ address }] = await net.host.json<[{ address: string }]>("ip", ["-j", "link", "show", "up0"])
  const { pod, attachment } = await net.attach({ mode: "passthru" })
  const result = await attachment.add()
  expect(result.interfaces).toEqual([{ name: "eth0", mac: address, mtu: 1500, sandbox: pod.path }])
  expect(await modeOf(pod)).toBe("macvlan passthru")
  expect(await answering(pod, lan, lan)).toEqual(lan)
  const refusal = await fail((await net.attach({ mode: "bridge" })).attachment.run("ADD"))
  expect(refusal.msg).toStartWith('Cannot create macvlan "eth0" on "up0"')
  expect(refusal.details).toContain("excludes others")
  await attachment.del()
  await (await net.attach({ mode: "bridge" })).attachment.add()
})

test("neighbors learn at once who has an address now, of both families", async () => {
  await using net = await LanHost.create()
  const { attachment } = await net.attach()
  const { interfaces } = await attachment.add()
  await attachment.del()
  const stale = async () =>
    (await net.lan.json<{ dst: string; lladdr: string }[]>("ip", ["-j", "neigh", "show", "dev", "port0"]))
      .filter(({ dst }) => first.some((address) => address === dst))
      .map(({ dst, lladdr }) => `${dst} ${lladdr}`)
      .sort()
  for (const address of first) {
    await net.lan.exec("ip", ["neigh", "replace", address, "lladdr", interfaces[0]?.mac ?? "", "dev", "port0"])
    await net.lan.exec("ip", [
      "neigh",
      "change",
      address,
      "lladdr",
      interfaces[0]?.mac ?? "",
      "dev",
      "port0",
      "nud",
      "stale",
    ])
  }
  const next = await net.attach({
    ipam: { type: "static", addresses: first.map((ip, at) => ({ address: `${ip}/${at ? 64 : 24}` })) },
  })
  const mac = (await next.attachment.add()).interfaces[0]?.mac
  await waitFor(
    async () => (await stale()).every((line) => line.endsWith(` ${mac}`)),
    "the neighbors' tables to change",
  )
})
