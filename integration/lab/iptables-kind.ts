import type { HostNamespace } from "./host-namespace.ts"

/** The executables behind all programs of iptables; Debian's `iptables` is a chain of links that ends in the first. */
const newer = "/usr/sbin/xtables-nft-multi"
const legacy = "/usr/sbin/xtables-legacy-multi"

/** What a host may have as `iptables`: rules in nf_tables, rules in the kernel's older tables, or no program at all. */
export type IptablesKind = "nf_tables" | "legacy" | "none"

/** Chooses for a host what `iptables` is; the machine keeps its own. Made by mounts, which go with the host. */
export async function chooseIptables(host: HostNamespace, kind: IptablesKind): Promise<void> {
  for (const file of [newer, legacy]) await host.tryExec("umount", ["--all-targets", file])
  if (kind === "legacy") await mountOver(host, newer, legacy)
  if (kind === "none") for (const file of [newer, legacy]) await mountOver(host, file, "/dev/null")
}

/** Puts another file in the place of a host's file. */
export async function mountOver(host: HostNamespace, file: string, other: string): Promise<void> {
  await host.exec("mount", ["--bind", other, file])
}
