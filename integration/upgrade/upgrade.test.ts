import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { type Change, expectUnchanged, HostNamespace, isAllocationTrace, takeSnapshot } from "../lab/mod.ts"
import { call, collect, networkNames } from "./networks.ts"
import { record } from "./record.ts"
import { type Recording, replay, snapshotsOf } from "./recording.ts"

const files = (await readdir(import.meta.dir)).filter((name) => /^\d.*\.json$/.test(name))
const released = await Promise.all(
  files.map(async (name): Promise<[string, Recording]> => {
    return [name.replace(/\.json$/, ""), await Bun.file(join(import.meta.dir, name)).json()]
  }),
)
/** The recorded states of releases, and the state of this build. */
const recordings: [string, Recording][] = [...released, ["this build", await record()]]

/** Adds what a later version may add: a key in each record; a chain, a set and a rule in each table. */
function later(text: string, path: string): string {
  if (path === "nft") {
    const added = `
	set later {
		type mark
		elements = { 0x00000007 comment "later" }
	}

	chain later {
		meta mark @later accept comment "of a later version"
	}
}`
    return text.replaceAll(/\n\}(?=\n|$)/g, added)
  }
  if (/\/(results|flannel)\/|\.json$/.test(path)) return text.replace(/\{/, '{"later": {"version": 2},')
  return text
}

/** The states of a node from which an upgrade or downgrade starts. */
const nodes = recordings.flatMap(([version, recording]) => [
  { title: version, recording, change: (text: string) => text },
  { title: `a version after ${version}`, recording, change: later },
])

/**
 * Returns the lines about containers in a snapshot of the host: names, addresses, and ends of veth pairs. Omits
 * host-local's position and the notes about rules, which DEL keeps on purpose.
 */
async function linesAboutContainers(host: HostNamespace): Promise<string[]> {
  const all = Object.entries(await takeSnapshot(host)).flatMap(([section, lines]) =>
    lines
      .filter((line) => !/\/(last_reserved_ip\.|\.index\/)|^\/run\/cni\/rules\//.test(line))
      .map((line) => `${section}: ${line}`),
  )
  return all.filter((line) => /\bpod-|\b10\.2\d\.0\.2\b|\bfd00:2\d::2\b|\bveth[0-9a-f]{8}/.test(line))
}

async function expectDevice(host: HostNamespace): Promise<void> {
  const [device] = await host.json<object[]>("ip", ["-j", "link", "show", "dev0"])
  expect(device).toMatchObject({ ifname: "dev0", address: "0a:00:00:00:25:01", mtu: 1500 })
  expect(device).not.toHaveProperty("altnames")
  expect(device).not.toHaveProperty("ifalias")
}

test.each(recordings)("what %s has left on a node is the same again after a replay", async (_, recording) => {
  await using host = await HostNamespace.create()
  const containers = await replay(recording, host)
  const now = await snapshotsOf(host, containers)
  for (const name of ["", ...networkNames]) expectUnchanged(recording.snapshots[name] ?? {}, now[name] ?? {})
})

test.each(nodes)("containers of $title pass CHECK, and DEL leaves nothing of them", async ({ recording, change }) => {
  await using host = await HostNamespace.create()
  const containers = await replay(recording, host, change)
  for (const [name, container] of containers) await call(host, "check", name, container)
  expect((await linesAboutContainers(host)).length).toBeGreaterThan(100)
  for (const [name, container] of containers) await call(host, "del", name, container)
  expect(await linesAboutContainers(host)).toEqual([])
  await expectDevice(host)
})

test.each(nodes)(
  "what containers of $title left that are gone is collected, and the others are kept",
  async ({ recording, change }) => {
    await using host = await HostNamespace.create()
    const containers = await replay(recording, host, change)
    for (const [name, container] of containers) if (name !== "old") await host.removeContainer(container)
    for (const name of networkNames) await collect(host, name)
    const [old] = [...containers].filter(([name]) => name === "old")
    if (old === undefined) throw new Error("the recording has no network of this name")
    await call(host, "check", ...old)
    await call(host, "del", ...old)
    expect(await linesAboutContainers(host)).toEqual([])
  },
)

test.each(nodes)(
  "new containers are attached beside those of $title, and leave these as they are",
  async ({ recording, change }) => {
    await using host = await HostNamespace.create()
    const containers = await replay(recording, host, change)
    const before = await takeSnapshot(host)
    for (const name of networkNames.filter((one) => one !== "card")) {
      const container = await host.addContainer("new")
      const own = { id: "new", hostPort: 9000 + networkNames.indexOf(name) }
      const { stdout } = await call(host, "add", name, container, own)
      expect(stdout).toContain(".3/24")
      await call(host, "check", name, container, own)
      await call(host, "del", name, container, own)
    }
    for (const [name, container] of containers) await call(host, "check", name, container)
    // The next ADD with iptables deletes the record of an interface that no longer exists.
    const isRecord = ({ line }: Change) => line.startsWith("set ip cni_hostports localnet_links element")
    // The first ADD or DEL of portmap replaces the chains and rules of its tables,
    // `integration/portmap/earlier-table.test.ts`.
    const isReplaced = ({ line }: Change) =>
      /^(chain|rule) ip6? cni_hostports (hostports|prerouting|output|postrouting) /.test(line)
    const isExpected = (change: Change) => isAllocationTrace(change) || isRecord(change) || isReplaced(change)
    expectUnchanged(before, await takeSnapshot(host), isExpected)
  },
)
