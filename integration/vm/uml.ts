import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { mustRun } from "../lab/mod.ts"
import type { Kernel, KernelFiles } from "./kernel.ts"

/** User-mode Linux, for a node without nf_tables for IP. */
export const uml: Kernel = {
  title: "user-mode Linux",
  lacks: [
    "br_netfilter",
    "kernel_clock",
    "nf_tables",
    "nf_tables_catch_all",
    "no_dummy",
    "no_ipv6",
    "no_vrf",
    "spare_disk",
    "spare_nic",
  ],
  shows: ["no_nf_tables", "vlan_filtering", "ipvlan", "vlan", "vrf", "dummy"],
  files: ["every-plugin/kernels.test.ts"],
  patience: 10,
  limitMs: 3_600_000,
  share: "hostfs",
  initModules: ["overlay"],
  find: debianUml,
  command: ({ image, preload, initramfs, reports }) => [
    // The machine consists of many processes, which must end together and need no network. In a panic it sends signals
    // to its process group and to itself, so it has its own session and is not process 1.
    ...["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child"],
    ...["prlimit", "--core=0", "setsid", "--fork", "--wait"],
    ...["env", `LD_PRELOAD=${preload}`],
    ...[image, `initrd=${initramfs}`, `uml_dir=${reports}/`, "mem=2G"],
    ...["con=null", "con0=fd:0,fd:1", "quiet", "panic=-1"],
  ],
}

/** The same kernel as if built without IPv6: it cannot load the IPv6 module or modules that need IPv6. */
export const umlWithoutIpv6: Kernel = {
  ...uml,
  title: "user-mode Linux without IPv6",
  lacks: [
    "br_netfilter",
    "bridge",
    "ip6tables",
    "ipvlan",
    "kernel_clock",
    "nf_tables",
    "nf_tables_catch_all",
    "no_dummy",
    "spare_disk",
    "spare_nic",
    "vlan_filtering",
    "vrf",
  ],
  shows: ["no_ipv6"],
  files: [],
  command: (boot) => [...uml.command(boot), "module_blacklist=ipv6"],
}

/** Returns the kernel of Debian's package user-mode-linux, with a library that lets it run on every processor. */
async function debianUml(scratch: string): Promise<KernelFiles> {
  const directory = "/usr/lib/uml/modules"
  const [release] = (await readdir(directory).catch(() => [])).sort().reverse()
  if (release === undefined) throw new Error(`Cannot find a kernel in ${directory}: install user-mode-linux`)
  const preload = join(scratch, "uml-ptrace.so")
  await mustRun(["gcc", "-shared", "-fPIC", "-O2", "-o", preload, join(import.meta.dir, "uml-ptrace.c")])
  return { image: "/usr/bin/linux.uml", modules: join(directory, release), preload }
}
