import { stat } from "node:fs/promises"
import { dirname } from "node:path"
import { type ContainerNamespace, type HostNamespace, mustRun, type Snapshot, takeSnapshot } from "../lab/mod.ts"
import { setUpNetworks } from "./networks.ts"

/**
 * What a version of the suite has left on a node with one running container for each network: files, rules, links, as
 * the commands that make the same again. In all texts `{{netns:NAME}}` stands for the path of a container's namespace,
 * `{{inode:NAME}}` for the number that the kernel gives it, `{{boot}}` for the boot id: these are of the node.
 */
export interface Recording {
  readonly version: string
  /** The sections of `takeSnapshot`, of the host by the name "", of containers by theirs. */
  readonly snapshots: Readonly<Record<string, Snapshot>>
  /** Command lines of `ip`, `bridge` and `sysctl`, each with the namespace that it is run in. */
  readonly commands: readonly (readonly [namespace: string, command: string])[]
  /** Our tables, as `nft list table` prints them. */
  readonly nft: string
  readonly iptables: string
  readonly ip6tables: string
  readonly files: readonly RecordedFile[]
}

export interface RecordedFile {
  readonly path: string
  /** Seconds since 1970, with nanoseconds. */
  readonly modified: string
  readonly text: string
}

/** The containers of a node by name. */
export type Containers = ReadonlyMap<string, ContainerNamespace>

/** The placeholders for values of this node. */
export async function placeholders(
  host: HostNamespace,
  containers: Containers,
): Promise<[text: string, placeholder: string][]> {
  const ofContainers = [...containers].map(
    async ([name, { path }]): Promise<[string, string][]> => [
      [path, `{{netns:${name}}}`],
      [String((await stat(path)).ino), `{{inode:${name}}}`],
    ],
  )
  const boot = (await Bun.file("/proc/sys/kernel/random/boot_id").text()).trim()
  const inode = String((await stat(host.path)).ino)
  return [...(await Promise.all(ofContainers)).flat(), [boot, "{{boot}}"], [inode, "{{inode:host}}"]]
}

/**
 * The sections that a recording has. CHECK judges the settings of links, and the other sections are the kernel's own.
 */
const sections = [
  "addresses",
  "IPv4 routes",
  "IPv6 routes",
  "nftables",
  "iptables",
  "ip6tables",
  "/var/lib/cni",
  "/run/cni",
] as const

/** Returns the recorded sections of host and containers. */
export async function snapshotsOf(host: HostNamespace, containers: Containers): Promise<Record<string, Snapshot>> {
  const own = await placeholders(host, containers)
  const all = [["", host] as const, ...containers].map(async ([name, namespace]) => {
    const text = JSON.stringify(await takeSnapshot(namespace))
    const snapshot: Snapshot = JSON.parse(
      own.reduce((rest, [mine, placeholder]) => rest.replaceAll(mine, placeholder), text),
    )
    return [name, Object.fromEntries(sections.map((section) => [section, (snapshot[section] ?? []).filter(isKept)]))]
  })
  return Object.fromEntries(await Promise.all(all))
}

/**
 * Not compared: the seal of a store's index, which contains inodes and times that cannot be set, and the checksums
 * beside it; directories of drafts; the tables of iptables in nf_tables, which iptables-save prints as well.
 */
const isKept = (line: string) =>
  !/\/\.index\/(seal|owners-\w+|new\/)|^\/var\/lib\/cni\/locks\/$|^(table|chain|rule) ip6? (filter|nat|mangle|raw)\b/.test(
    line,
  )

/** Restores a node's recorded state. `change` gets each text before it is used. */
export async function replay(
  recording: Recording,
  host: HostNamespace,
  change: (text: string, path: string) => string = (text) => text,
): Promise<Map<string, ContainerNamespace>> {
  const containers = new Map<string, ContainerNamespace>()
  await setUpNetworks(host)
  for (const name of Object.keys(recording.snapshots))
    if (name !== "") containers.set(name, await host.addContainer(name))
  const own = await placeholders(host, containers)
  const here = (text: string) => own.reduce((all, [mine, placeholder]) => all.replaceAll(placeholder, mine), text)

  for (const [name, command] of recording.commands) {
    await (containers.get(name) ?? host).exec("sh", ["-ec", here(command)])
  }
  await host.exec("nft", ["-f", "-"], { input: change(recording.nft, "nft") })
  await host.exec("iptables-restore", [], { input: here(recording.iptables) })
  await host.exec("ip6tables-restore", [], { input: here(recording.ip6tables) })
  for (const { path: recorded, modified, text } of recording.files) {
    const path = here(recorded)
    const lines = here(change(text, path)).split("\n")
    await mustRun(["mkdir", "-p", dirname(host.file(path))])
    await Bun.write(host.file(path), lines.map(/\/owners-\w+$/.test(path) ? sumAnew : String).join("\n"))
    await mustRun(["touch", "--date", `@${modified}`, host.file(path)])
  }
  return containers
}

/** A record of an owner has the CRC-32 of its text before it. */
function sumAnew(line: string): string {
  const text = line.slice(line.indexOf(" ") + 1)
  return line === "" ? line : `${Bun.hash.crc32(text).toString(16).padStart(8, "0")} ${text}`
}
