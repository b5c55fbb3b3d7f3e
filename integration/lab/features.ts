import { execaSync } from "execa"
import { programEnv } from "./program.ts"
import { smallCgroupCommand } from "./small-cgroup.ts"

/** A command that succeeds in an empty, temporary network namespace if the kernel has a feature. */
interface Probe {
  readonly command: readonly string[]
  readonly input?: string
  /** Whether the feature exists if the command fails. */
  readonly absent?: boolean
}

const ip = (...lines: string[]): Probe => ({ command: ["ip", "-batch", "-"], input: `${lines.join("\n")}\n` })
const onVeth = (link: string) => ip("link add e0 type veth peer name e1", `link add link e0 name x0 type ${link}`)
const nft = (input: string): Probe => ({ command: ["nft", "-f", "-"], input })
const natForIp = nft("add table inet t; add chain inet t c { type nat hook postrouting priority 100; }")

const probes = {
  vlan_filtering: ip("link add br0 type bridge vlan_filtering 1"),
  ipvlan: onVeth("ipvlan mode l2"),
  macvlan: onVeth("macvlan mode bridge"),
  vlan: onVeth("vlan id 5"),
  vrf: ip("link add x0 type vrf table 5"),
  bridge: ip("link add x0 type bridge"),
  no_ipv6: { command: ["test", "!", "-e", "/proc/net/if_inet6"] },
  no_vrf: { ...ip("link add x0 type vrf table 5"), absent: true },
  dummy: ip("link add x0 type dummy"),
  no_dummy: { ...ip("link add x0 type dummy"), absent: true },
  tap: ip("tuntap add name x0 mode tap"),
  selinux: { command: ["grep", "-q", "selinuxfs", "/proc/filesystems"] },
  ifb: ip("link add x0 type ifb"),
  // The network card of a virtual machine of vm/qemu.ts, recognized by its MAC. No test may use another machine's card.
  spare_nic: { command: ["sh", "-c", "grep -q 52:54:00:0d:e7:1c /sys/class/net/*/address"] },
  // The disk of such a virtual machine, which keeps its identity after a reboot.
  spare_disk: { command: ["sh", "-c", "grep -qx cni-spare-disk /sys/block/*/serial"] },
  tbf: { command: "tc qdisc add dev lo root tbf rate 1mbit burst 32kbit latency 10ms".split(" ") },
  nf_tables: natForIp,
  no_nf_tables: { ...natForIp, absent: true },
  nf_tables_catch_all: nft("add table ip t; add map ip t m { type ipv4_addr : verdict; elements = { * : accept }; }"),
  nf_tables_bridge: nft("add table bridge t; add chain bridge t c { type filter hook forward priority 0; }"),
  // Clock sources that programs cannot read directly, so that each reading is a system call.
  kernel_clock: {
    command: ["grep", "-qxE", "hpet|acpi_pm", "/sys/devices/system/clocksource/clocksource0/current_clocksource"],
  },
  br_netfilter: { command: ["test", "-e", "/proc/sys/net/bridge/bridge-nf-call-iptables"] },
  iptables: { command: ["iptables-legacy", "-t", "nat", "-S"] },
  ip6tables: { command: ["ip6tables-legacy", "-t", "nat", "-S"] },
  memory_cgroup: { command: smallCgroupCommand },
} as const satisfies Record<string, Probe>

/**
 * A feature of the kernel that a test may need. `no_nf_tables` is a kernel without nf_tables, where masquerading uses
 * iptables. On kernels with `no_vrf` or `no_dummy`, plugins and tools must report the missing link type.
 */
export type Feature = keyof typeof probes

export const allFeatures = Object.keys(probes) as readonly Feature[]

/** The results of earlier probes; the only state of this module. */
const found = new Map<Feature, boolean>()

/**
 * Reports whether this kernel has a feature, which is probed once. Needs root. Throws if the probe's program is
 * missing.
 */
export function hasFeature(feature: Feature): boolean {
  const known = found.get(feature)
  if (known !== undefined) return known
  const has = probe(probes[feature])
  found.set(feature, has)
  return has
}

/** Reports whether doctor's finding concerns the machine, not the host: a missing module, or a full shared table. */
export function isOfMachine(rule: string): boolean {
  return rule === "neighbours-full" || (rule === "br-netfilter-off" && !hasFeature("br_netfilter"))
}

function probe({ command, input = "", absent = false }: Probe): boolean {
  const options = { env: { ...programEnv }, extendEnv: false, input, reject: false } as const
  const { exitCode, stderr, cause } = execaSync("unshare", ["--net", ...command], options)
  // exit code 127: unshare(1) did not find the program
  if (exitCode === undefined || exitCode === 127) throw new Error(`Cannot run "${command[0]}": ${stderr}`, { cause })
  return (exitCode === 0) !== absent
}
