import { expect, test } from "bun:test"
import { readdir, readFile, readlink } from "node:fs/promises"
import {
  type Attached,
  expectUnchanged,
  isAllocationTrace,
  pluginsAs,
  Stage,
  takeSnapshot,
  testPlugins,
  waitFor,
} from "../lab/mod.ts"

const stateful = pluginsAs().filter((plugin) => plugin !== "loopback" && plugin !== "static")

testPlugins(stateful, "#45 %s: eight calls at once leave what they share as eight in a row do", async (plugin) => {
  await using stage = await Stage.create(plugin)
  await stage.settle()
  const all: Attached[] = []
  for (let count = 0; count < 8; count++) all.push(await stage.attach())
  const before = await takeSnapshot(stage.host)
  const results = await Promise.all(all.map(({ attachment }) => attachment.add()))
  expect(new Set(results.map(({ ips }) => ips[0]?.address)).size).toBe(8)
  const checks = await Promise.all(all.map(({ attachment }, at) => attachment.check(results[at] ?? {})))
  expect(checks.map(({ exitCode, stdout }) => `${exitCode} ${stdout}`)).toEqual(Array(8).fill("0 "))
  // Run DEL of half of the containers while ADD of the other half runs again.
  const [going, coming] = [all.slice(0, 4), all.slice(4)]
  for (const { attachment } of coming) await attachment.del()
  const [again] = await Promise.all([
    Promise.all(coming.map(({ attachment }) => attachment.add())),
    ...going.map(({ attachment }) => attachment.del()),
  ])
  for (const [at, { attachment }] of coming.entries()) {
    expect(await attachment.check(again[at] ?? {})).toMatchObject({ exitCode: 0, stdout: "" })
  }
  await Promise.all(coming.map(({ attachment }) => attachment.del()))
  expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
})

test("#45 host-local: a call waits for the one that holds the lock, and reserves nothing before", async () => {
  await using stage = await Stage.create("host-local")
  const { host } = stage
  await stage.settle()
  const directory = "/var/lib/cni/networks/lab"
  const locked = ["flock", `${directory}/lock`, "sh", "-c", "echo locked; read -r _"]
  const holder = Bun.spawn(host.commandLine(locked), { stdin: "pipe", stdout: "pipe" })
  await holder.stdout.getReader().read()
  const { attachment } = await stage.attach()
  let isDone = false
  const adding = attachment.add().finally(() => {
    isDone = true
  })
  await waitFor(async () => (await openersOf(`${directory}/lock`)).includes("host-local"), "the call to find the lock")
  expect(await readdir(host.file(directory))).not.toContain("10.22.0.3")
  expect(isDone).toBe(false)
  holder.stdin.end()
  expect((await adding).ips[0]?.address).toBe("10.22.0.3/24")
  await holder.exited
})

/** Returns the programs that have a file open. */
async function openersOf(path: string): Promise<string[]> {
  const links = [...new Bun.Glob("[0-9]*/fd/*").scanSync({ cwd: "/proc", onlyFiles: false })]
  const programs = links.map(async (link) => {
    if ((await readlink(`/proc/${link}`).catch(() => "")) !== path) return []
    return [(await readFile(`/proc/${link.split("/")[0]}/comm`, "utf8").catch(() => "")).trim()]
  })
  return (await Promise.all(programs)).flat()
}

testPlugins(
  stateful,
  "#46 %s: DEL of one attachment leaves the container's others, by network and by interface, and other containers'",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const one = await stage.attach()
    const { pod } = one
    const others = [
      await stage.attach({ pod, ifName: "eth1" }),
      await stage.attach({ pod, ifName: "net1", network: "other" }),
      await stage.attach(),
    ]
    await one.attachment.add()
    const results = []
    for (const { attachment } of others) results.push(await attachment.add())
    await one.attachment.del()
    for (const [at, { attachment }] of others.entries()) {
      expect(await attachment.check(results[at] ?? {})).toMatchObject({ exitCode: 0, stdout: "" })
    }
  },
  { forEachKind: true },
)

// These plugins configure an interface independent of the network.
const ofInterface = ["bandwidth", "sbr"]
testPlugins(
  stateful.filter((plugin) => pluginsAs("ipam", "chained").includes(plugin) && !ofInterface.includes(plugin)),
  "#46 %s: the same container and interface in two networks are two records",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach()
    // The two networks must not make the same settings, because then they would conflict.
    const runtimeConfig = { portMappings: [{ hostPort: 9090, containerPort: 80, protocol: "tcp" }] }
    const sysctl = { "net.ipv4.conf.IFNAME.arp_announce": "1" }
    const other = { name: "other", runtimeConfig, sysctl, txQLen: undefined }
    const results = [await attachment.add(), await attachment.add(other)]
    await attachment.del()
    expect(await attachment.check(results[1] ?? {}, other)).toMatchObject({ exitCode: 0, stdout: "" })
    expect((await attachment.check(results[0] ?? {})).exitCode).toBe(1)
    await attachment.del(other)
    expect((await attachment.check(results[1] ?? {}, other)).exitCode).toBe(1)
  },
)

for (const separator of ["_", "-", "."]) {
  testPlugins(
    stateful,
    `#46 %s: containers and interfaces whose names are the same when "${separator}" joins them are two records`,
    async (plugin) => {
      await using stage = await Stage.create(plugin)
      await stage.settle()
      const before = await takeSnapshot(stage.host)
      const one = await stage.attach({ containerId: "a", ifName: `b${separator}c` })
      const two = await stage.attach({ containerId: `a${separator}b`, ifName: "c" })
      const inside = await takeSnapshot(two.pod)
      const results = [await one.attachment.add(), await two.attachment.add()]
      await one.attachment.del()
      expect(await two.attachment.check(results[1] ?? {})).toMatchObject({ exitCode: 0, stdout: "" })
      expect((await one.attachment.check(results[0] ?? {})).exitCode).toBe(1)
      await two.attachment.del()
      expectUnchanged(inside, await takeSnapshot(two.pod))
      for (const { maker } of [one, two]) await maker?.del()
      expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
    },
  )
}
