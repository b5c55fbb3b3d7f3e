import { expect, test } from "bun:test"
import { Attachment, fail } from "../lab/mod.ts"
import { everything, TuningChain, writeAllowList } from "./chain.ts"

test("GC removes the backups of attachments that are gone, and those of other networks and valid ones stay", async () => {
  await using chain = await TuningChain.create(everything)
  await chain.tuning.add()
  const name = `lab:${chain.pod.name}:eth0.json`
  const gc = (valid: object[], keys: object = {}) =>
    chain.tuning.run("GC", { "cni.dev/valid-attachments": valid, ...keys })
  const tuned = await chain.link()
  expect(await gc([{ containerID: chain.pod.name, ifname: "eth0" }])).toMatchObject({ exitCode: 0, stdout: "" })
  expect(await gc([], { name: "other" })).toMatchObject({ exitCode: 0 })
  expect(await chain.backups()).toEqual([name])
  expect(await gc([{ containerID: chain.pod.name, ifname: "eth1" }])).toMatchObject({ exitCode: 0 })
  expect(await chain.backups()).toEqual([])
  expect(await chain.link()).toEqual(tuned)
})

test("GC leaves what upstream wrote: it does not name the owner", async () => {
  await using chain = await TuningChain.create({ mtu: 1400, cniVersion: "1.0.0" })
  await chain.tuning.run("ADD", {}, { bin: "/usr/lib/cni/tuning" })
  const keys = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [], prevResult: undefined }
  expect(await chain.tuning.run("GC", keys)).toMatchObject({ exitCode: 0 })
  expect(await chain.backups()).toHaveLength(1)
})

test("GC where nothing was ever tuned succeeds, with a broken configuration too", async () => {
  await using chain = await TuningChain.create({ mtu: "big", sysctl: 5 })
  expect(await chain.tuning.run("GC", { "cni.dev/valid-attachments": [] })).toMatchObject({ exitCode: 0, stdout: "" })
})

test("#33 GC goes on to the other backups when one cannot be removed", async () => {
  await using chain = await TuningChain.create(everything)
  await chain.tuning.add()
  await chain.host.exec("mkdir", ["/run/cni/tuning/.lab:gone:eth0.json"])
  const error = await fail(chain.tuning.run("GC", { "cni.dev/valid-attachments": [] }))
  expect(error.msg).toContain(".lab:gone:eth0.json")
  expect(await chain.backups()).toEqual([".lab:gone:eth0.json"])
})

test("STATUS is silent when ADD can succeed, and makes nothing", async () => {
  await using chain = await TuningChain.create(everything)
  const status = new Attachment(chain.host, chain.pod, { ...chain.tuning.config, prevResult: undefined })
  expect(await status.run("STATUS")).toMatchObject({ exitCode: 0, stdout: "" })
  expect(await chain.backups()).toEqual([])
})

const reasons: [string, (chain: TuningChain) => Promise<unknown>, object, number, string][] = [
  ["the backups have no place", ({ host }) => host.exec("touch", ["/run/cni/tuning"]), {}, 50, "Cannot keep backups"],
  [
    "a file is in the way of that place",
    ({ host }) => host.exec("touch", ["/run/cni/place"]),
    { dataDir: "/run/cni/place/of/backups" },
    50,
    "Cannot keep",
  ],
  [
    "the backups' place is read-only",
    ({ host }) => host.exec("mount", ["-o", "remount,ro", "/run/cni"]),
    {},
    50,
    "Cannot keep",
  ],
  [
    "their place is read-only, and there",
    ({ host }) => host.exec("sh", ["-c", "mkdir /run/cni/tuning; mount -o remount,ro /run/cni"]),
    {},
    50,
    "Cannot keep",
  ],
  ["a sysctl stands there twice", async () => {}, { sysctl: "TWICE" }, 50, "duplicated sysctl keys"],
  ["the allow list forbids a sysctl", ({ host }) => writeAllowList(host, ["^net.ipv4"]), {}, 50, "is not allowed"],
  ["the allow list cannot be used", ({ host }) => writeAllowList(host, ["("]), {}, 50, "is not a regular expression"],
  ["the configuration is wrong", async () => {}, { mtu: "big" }, 7, 'Cannot use "mtu"'],
]

test.each(reasons)("STATUS says so when %s", async (_, setUp, keys, code, says) => {
  await using chain = await TuningChain.create(everything)
  await setUp(chain)
  const twice = '{ "net.core.somaxconn": "1", "net.core.somaxconn": "2" }'
  const config = JSON.stringify({ ...chain.tuning.config, ...keys }).replace('"TWICE"', twice)
  const error = await fail(chain.tuning.run("STATUS", {}, { config }))
  expect(error).toMatchObject({ code, msg: expect.stringContaining(says) })
  expect((await fail(chain.tuning.run("ADD", {}, { config }))).code).not.toBe(50)
})
