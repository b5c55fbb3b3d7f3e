import { expect } from "bun:test"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { mkdir, writeFile } from "node:fs/promises"
import {
  Attachment,
  type ContainerNamespace,
  fail,
  type HostNamespace,
  hostFor,
  isLong,
  listNamespaces,
  mustRun,
  newest,
  type PluginResult,
  pluginRow,
  pluginsAs,
  scaleTimeout,
  succeed,
  TemporaryDirectory,
  tellFigure,
  testWith,
} from "../lab/mod.ts"

/** Chains that contain every plugin except dhcp, which needs a server. Each chain is a separate network. */
const all: readonly (readonly string[])[] = [
  ["bridge", "tuning", "portmap", "firewall", "bandwidth", "sbr"],
  ["macvlan"],
  ["ipvlan"],
  ["vlan"],
  ["dummy", "vrf"],
  ["ptp"],
  ["tap"],
  ["host-device"],
  ["flannel"],
  ["loopback"],
]
const chains = isLong ? all : [["bridge", "tuning", "portmap"], ["flannel"]]
/** Configuration keys that replace those of the lab's table. */
const own: Readonly<Record<string, object>> = {
  ipvlan: { master: "card" }, // an interface cannot have both ipvlans and macvlans
  dummy: { ipam: { type: "static", addresses: [{ address: "10.69.0.7/24" }] } },
}

/** The data that the first boot saves on the disk for the second. */
interface Notes {
  readonly bootId: string
  readonly formers: readonly {
    readonly pod: Pick<ContainerNamespace, "name" | "path">
    readonly results: PluginResult[]
  }[]
}

const bootId = () => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
const diskDevice = () => {
  const [name] = readdirSync("/sys/block").filter((block) => {
    const serial = `/sys/block/${block}/serial`
    return existsSync(serial) && readFileSync(serial, "utf8").trim() === "cni-spare-disk"
  })
  return `/dev/${name}`
}

/** Returns the attachments of a chain to a container. */
function attachmentsOf(host: HostNamespace, at: number, pod: Notes["formers"][number]["pod"]): Attachment[] {
  const ifName = chains[at]?.[0] === "loopback" ? "lo" : "eth0"
  return (chains[at] ?? []).map((type) => {
    const keys = { ...pluginRow(type).keys({ network: "lab", port: 8080 + at }), ...own[type] }
    const ipam = "ipam" in keys && !own[type] ? { ipam: pool(at) } : {}
    const config = { cniVersion: newest, name: `net-${at}`, type, ...keys, ...ipam }
    return new Attachment(host, pod as ContainerNamespace, config, { ifName })
  })
}

const pool = (at: number) => ({ type: "host-local", ranges: [[{ subnet: `10.60.${at}.0/29` }]] })

async function addAll(plugins: readonly Attachment[]): Promise<PluginResult[]> {
  const results: PluginResult[] = []
  for (const plugin of plugins) results.push(await plugin.add(results.length > 0 ? { prevResult: results.at(-1) } : {}))
  return results
}

async function firstBoot(host: HostNamespace, notes: string): Promise<void> {
  const formers: Notes["formers"] = await Promise.all(
    chains.map(async (_, at) => {
      const pod = await host.addContainer()
      return { pod: { name: pod.name, path: pod.path }, results: await addAll(attachmentsOf(host, at, pod)) }
    }),
  )
  await writeFile(notes, JSON.stringify({ bootId: bootId(), formers } satisfies Notes))
}

/** Deletes the former container of one chain by DEL or GC, after the reboot. Then adds and deletes a new container. */
async function comeBack(host: HostNamespace, at: number, { pod, results }: Notes["formers"][number]): Promise<string> {
  const plugins = attachmentsOf(host, at, pod)
  for (const plugin of plugins) await succeed(plugin.run("STATUS"))
  const { msg, details } = await fail((plugins[0] as Attachment).check(results[0] ?? {}))
  expect(`${msg}; ${details}`).toContain(pod.name)
  const next = await host.addContainer()
  const attachments = attachmentsOf(host, at, next)
  const answers = await addAll(attachments)
  const valid = [{ containerID: next.name, ifname: chains[at]?.[0] === "loopback" ? "lo" : "eth0" }]
  if (at % 2 === 0) for (const plugin of plugins.toReversed()) await plugin.del({ prevResult: results.at(-1) })
  else for (const plugin of plugins) await succeed(plugin.run("GC", { "cni.dev/valid-attachments": valid }))
  for (const plugin of attachments) await succeed(plugin.check(answers.at(-1) ?? {}))
  for (const plugin of attachments.toReversed()) await plugin.del({ prevResult: answers.at(-1) })
  return next.name
}

testWith(
  ["spare_disk"],
  "a reboot of the machine, /var/lib/cni kept: STATUS and ADD succeed, CHECK of what was before fails, DEL and GC leave nothing of it",
  async () => {
    expect(all.flat().concat("host-local", "static", "dhcp").sort()).toEqual(pluginsAs().sort())
    await using disk = await TemporaryDirectory.create("cni-disk")
    await mustRun(["mount", diskDevice(), disk.path])
    try {
      await mkdir(disk.join("lib"), { recursive: true })
      await using host = await hostFor(...chains.flat())
      await host.exec("mount", ["--bind", disk.join("lib"), "/var/lib/cni"])
      const notes = disk.join("notes.json")
      if (!existsSync(notes)) {
        await firstBoot(host, notes)
        return
      }
      const { bootId: earlier, formers } = JSON.parse(readFileSync(notes, "utf8")) as Notes
      expect(bootId()).not.toBe(earlier)
      for (const { pod } of formers) expect(await listNamespaces(pod.name)).toEqual([])
      const names = formers.map(({ pod }) => pod.name)
      const traces = async () => {
        const script =
          "nft -j list ruleset; ip -j -d link show; find /var/lib/cni -type f ! -path '*/.index/*' -print -exec cat {} +"
        return (await host.exec("sh", ["-c", script])).stdout
      }
      const before = await traces()
      expect(names.filter((name) => before.includes(name)).length).toBeGreaterThan(1) // leases and flannel's record
      const added = await Promise.all(formers.map((former, at) => comeBack(host, at, former)))
      const after = await traces()
      expect([...names, ...added].filter((name) => after.includes(name))).toEqual([])
      await tellFigure({
        what: "attachments that a reboot of the machine ended",
        tried: names.length,
        held: names.length,
      })
    } finally {
      await mustRun(["umount", "--lazy", disk.path])
    }
  },
  scaleTimeout(900_000),
)
