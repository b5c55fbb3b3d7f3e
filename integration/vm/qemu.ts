import { debianKernel } from "./debian-kernel.ts"
import type { Boot, Kernel } from "./kernel.ts"

/** Debian's stock kernel under emulation. It has all features of a usual node, but tests take 20 times as long. */
export const qemu: Kernel = {
  title: "Debian's stock kernel under QEMU",
  lacks: ["br_netfilter", "no_dummy", "no_ipv6", "no_nf_tables", "no_vrf"],
  shows: ["spare_disk", "spare_nic", "selinux", "kernel_clock"],
  files: ["every-plugin/kernels.test.ts"],
  rebooted: ["faults/rebooted.test.ts"],
  patience: 20,
  limitMs: 3_600_000,
  share: "9p",
  initModules: ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_net"],
  find: debianKernel,
  command: (boot) => emulator(boot),
}

export const qemuWithoutIpv6: Kernel = {
  ...qemu,
  title: "Debian's stock kernel under QEMU without IPv6",
  lacks: ["br_netfilter", "ip6tables", "no_dummy", "no_nf_tables", "no_vrf"],
  shows: ["no_ipv6"],
  // Plugins that need features which user-mode Linux without IPv6 lacks, or that behave differently with nf_tables.
  only: ["bridge", "firewall", "flannel", "ipvlan", "portmap", "vrf"],
  files: [],
  rebooted: [],
  command: (boot) => emulator(boot, "ipv6.disable=1"),
}

function emulator({ image, initramfs, reports, disk }: Boot, ...more: string[]): string[] {
  const append = ["console=ttyS0 quiet panic=-1 security=selinux selinux=1 clocksource=hpet", ...more].join(" ")
  return [
    "qemu-system-x86_64",
    ...["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048"],
    ...["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"],
    ...["-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,mac=52:54:00:0d:e7:1c"],
    ...[
      "-drive",
      `if=none,id=disk,format=raw,file=${disk}`,
      "-device",
      "virtio-blk-pci,drive=disk,serial=cni-spare-disk",
    ],
    ...["-kernel", image, "-initrd", initramfs],
    ...["-append", append],
    ...share("host", "/", "readonly=on"),
    ...share("reports", reports),
  ]
}

/** Returns the options for a directory that the machine can mount by name. */
function share(name: string, path: string, ...options: string[]): string[] {
  const fsdev = ["local", `id=${name}`, `path=${path}`, "security_model=none", "multidevs=remap", ...options].join(",")
  return ["-fsdev", fsdev, "-device", `virtio-9p-pci,fsdev=${name},mount_tag=${name}`]
}
