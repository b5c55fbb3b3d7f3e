import { stat } from "node:fs/promises"
import { dirname } from "node:path"
import { type ContainerNamespace, type HostNamespace, mustRun, type Snapshot, takeSnapshot } from "../lab/mod.ts"
import { setUpNetworks } from "./networks.ts"

/**
 * The objects of a version of the suite on a node with a running container in each network: files, rules, and commands
 * that create the links. The texts contain placeholders for values of the node: `{{netns:NAME}}` for the path of a
 * container's namespace, `{{inode:NAME}}` for its inode number, and `{{boot}}` for the boot ID.
 */
export interface Recording {
  readonly version: string
  /** The sections of `takeSnapshot` by container name. The name of the host is "". */
  readonly snapshots: Readonly<Record<string, Snapshot>>
  /** The command lines of `ip`, `bridge` and `sysctl`, each with the name of its namespace. */
  readonly commands: readonly (readonly [namespace: string, command: string])[]
  /** The tables of this suite, as `nft list table` prints them. */
  readonly nft: string
  readonly iptables: string
  readonly ip6tables: string
  readonly files: readonly RecordedFile[]
}

export interface RecordedFile {
  readonly path: string
  /** The modification time in seconds since 1970, with nanoseconds. */
  readonly modified: string
  readonly text: string
}

export type Containers = ReadonlyMap<string, ContainerNamespace>

/** Returns values of this node with their placeholders. */
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
 * The sections of `takeSnapshot` that a recording contains. Omits the settings of links, because CHECK compares them,
 * and all sections that belong to the kernel.
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
 * Reports whether a line is compared. Returns false for the seal and checksums of a store's index, because they contain
 * inode numbers and times; for directories of temporary files; and for iptables' tables in nf_tables, because
 * iptables-save prints them too.
 */
const isKept = (line: string) =>
  !/\/\.index\/(seal|owners-\w+|new\/)|^\/var\/lib\/cni\/locks\/$|^(table|chain|rule) ip6? (filter|nat|mangle|raw)\b/.test(
    line,
  )

/** Restores the recorded state on a node. `change` can change the rules of nft and the content of each file first. */
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

/** Returns a line of an owners file with a new checksum, which is the CRC-32 of the text after it. */
function sumAnew(line: string): string {
  const text = line.slice(line.indexOf(" ") + 1)
  return line === "" ? line : `${Bun.hash.crc32(text).toString(16).padStart(8, "0")} ${text}`
}
