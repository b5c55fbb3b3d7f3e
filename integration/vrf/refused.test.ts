import { expect, test } from "bun:test"
import { expectUnchanged, fail, succeed, takeSnapshot, testWith } from "../lab/mod.ts"
import { VrfHost } from "./vrf-lab.ts"

testWith(
  ["no_vrf"],
  "where the kernel has no VRFs, STATUS says so with code 50, ADD leaves everything as it was, and DEL and GC succeed",
  async () => {
    await using net = await VrfHost.create()
    const { host, pod } = net
    const { vrf, prevResult } = await net.attach(1)
    const [before, inside] = [await takeSnapshot(host), await takeSnapshot(pod)]
    const missing = { details: expect.stringContaining('the kernel has no vrf: load the module "vrf"') }
    expect(await fail(vrf.run("STATUS", { prevResult: undefined }))).toMatchObject({
      ...missing,
      code: 50,
      msg: 'Cannot create interfaces of kind "vrf"',
    })
    expect(await fail(vrf.run("ADD"))).toMatchObject({
      ...missing,
      code: 999,
      msg: 'Cannot create VRF "red" with table 1',
    })
    expect((await fail(vrf.check(prevResult))).msg).toBe(
      'Check of VRFs failed: expected "red", found none of that name',
    )
    await vrf.del()
    await succeed(vrf.run("GC", { prevResult: undefined, "cni.dev/valid-attachments": [] }))
    expectUnchanged(before, await takeSnapshot(host))
    expectUnchanged(inside, await takeSnapshot(pod))
  },
)

test.each<[string, object, number, string]>([
  ["there is no prevResult", { prevResult: undefined }, 7, 'there is no "eth1" to put into a VRF'],
  ["there is no name", { vrfname: undefined }, 7, 'Cannot use "vrfname": expected the name of a VRF, 1 to 15 bytes'],
  ["the name is too long", { vrfname: "a".repeat(16) }, 7, 'Cannot use "vrfname"'],
  ["the table is negative", { table: -1 }, 7, 'Cannot use "table": expected a whole number from 0 to 4294967295'],
  ["the name is that of another link", { vrfname: "other" }, 999, "Netlink other is not a VRF"],
  ["the interface is a port of a bridge", {}, 999, "interface eth1 has already a master set: other"],
  ["sbr routes by its addresses", {}, 999, "sbr already routes by its addresses"],
  ["the interface does not exist", {}, 999, 'Cannot put "eth1" into VRF "red": the interface does not exist'],
])("ADD of vrf changes nothing when %s, and DEL takes back nothing of others", async (what, keys, code, words) => {
  await using net = await VrfHost.create()
  const { pod } = net
  const { vrf, maker } = await net.attach(1)
  await pod.exec("ip", ["link", "add", "other", "type", "bridge"])
  if (what.includes("port")) await pod.exec("ip", ["link", "set", "eth1", "master", "other"])
  if (what.includes("sbr")) await pod.exec("ip", ["rule", "add", "from", "10.1.0.2", "lookup", "100", "proto", "67"])
  if (what.includes("does not exist")) await maker.del()
  const inside = await takeSnapshot(pod)
  expect(await fail(vrf.run("ADD", keys))).toMatchObject({ code, msg: expect.stringContaining(words) })
  await vrf.del(keys)
  expectUnchanged(inside, await takeSnapshot(pod))
})

test("DEL of vrf succeeds after the namespace no longer exists, and without one", async () => {
  await using net = await VrfHost.create()
  const { vrf, maker } = await net.attach(1)
  await maker.del()
  await net.host.removeContainer(net.pod)
  await vrf.del()
  await vrf.del({}, { netns: "" })
})
