import { describe, expect, test } from "bun:test"
import { fail, succeed } from "../lab/mod.ts"
import { TuningChain } from "./chain.ts"

// Debian's Go plugin 1.1.1 supports CNI 1.0.0. It supports neither txQLen nor IFNAME.
const upstream = { bin: "/usr/lib/cni/tuning" }
const keys = {
  cniVersion: "1.0.0",
  mac: "0a:00:00:00:00:07",
  mtu: 1400,
  promisc: true,
  allmulti: true,
  sysctl: { "net.ipv4.conf.eth0.arp_filter": "1" },
}

describe("after upstream's ADD", () => {
  test("CHECK passes, and DEL sets the link back and removes the backup", async () => {
    await using chain = await TuningChain.create(keys)
    const before = await chain.link()
    const { json } = await succeed(chain.tuning.run("ADD", {}, upstream))
    expect((await chain.link()).mtu).toBe(1400)
    expect(await chain.tuning.check(json as object)).toMatchObject({ exitCode: 0, stdout: "" })
    await chain.tuning.del()
    expect(await chain.link()).toEqual(before)
    expect(await chain.backups()).toEqual([])
  })

  test("an ADD here keeps upstream's originals", async () => {
    await using chain = await TuningChain.create(keys)
    const before = await chain.link()
    await succeed(chain.tuning.run("ADD", {}, upstream))
    await chain.tuning.add()
    await chain.tuning.del()
    expect(await chain.link()).toEqual(before)
    expect(await chain.backups()).toEqual([])
  })

  test("an ADD here that fails leaves upstream's backup, which DEL goes by", async () => {
    await using chain = await TuningChain.create(keys)
    const before = await chain.link()
    await succeed(chain.tuning.run("ADD", {}, upstream))
    await fail(chain.tuning.run("ADD", { mtu: 70_000 }))
    expect(await chain.backups()).toEqual([`${chain.pod.name}_eth0.json`])
    await chain.tuning.del()
    expect(await chain.link()).toEqual(before)
  })

  test("DEL in a namespace that is gone removes the backup, which upstream leaves", async () => {
    await using chain = await TuningChain.create(keys)
    await succeed(chain.tuning.run("ADD", {}, upstream))
    await chain.host.removeContainer(chain.pod)
    await chain.tuning.run("DEL", {}, upstream)
    expect(await chain.backups()).toHaveLength(1)
    await chain.tuning.del()
    expect(await chain.backups()).toEqual([])
  })
})

describe("after an ADD here", () => {
  test("upstream's CHECK passes, and its DEL, which finds no backup, leaves the link to who deletes it", async () => {
    await using chain = await TuningChain.create({ ...keys, txQLen: 77 })
    const before = await chain.link()
    const result = await chain.tuning.add()
    const tuned = await chain.link()
    expect(await chain.tuning.run("CHECK", { prevResult: result }, upstream)).toMatchObject({ exitCode: 0 })
    expect(await chain.tuning.run("DEL", {}, upstream)).toMatchObject({ exitCode: 0 })
    expect(await chain.link()).toEqual(tuned)
    await chain.tuning.del()
    expect(await chain.link()).toEqual(before)
    expect(await chain.backups()).toEqual([])
  })

  test("the result is upstream's, with the MTU besides", async () => {
    await using chain = await TuningChain.create({ ...keys, cniVersion: "0.4.0", mtu: 0 })
    const ours = await chain.tuning.add()
    await chain.tuning.del()
    const { json } = await succeed(chain.tuning.run("ADD", {}, upstream))
    expect(json as object).toEqual(ours)
  })
})

test("what upstream refuses is refused here", async () => {
  const refused: Record<string, unknown>[] = [
    { mac: "zz" },
    { mtu: "1400" },
    { sysctl: { "kernel.hostname": "x" } },
    { sysctl: { "net.ipv4.no_such_thing": "1" } },
    { sysctl: { "net.ipv4.ip_forward": 1 } },
    { sysctl: [] },
    { mtu: 100_000 },
    { mac: "01:00:5e:00:00:01" },
    { args: { cni: { mac: "zz" } } },
    { prevResult: undefined },
  ]
  await using chain = await TuningChain.create({ cniVersion: "1.0.0" })
  for (const broken of refused) {
    const theirs = await chain.tuning.run("ADD", broken, upstream)
    expect({ broken, exitCode: theirs.exitCode }).toEqual({ broken, exitCode: 1 })
    await fail(chain.tuning.run("ADD", broken))
  }
})
