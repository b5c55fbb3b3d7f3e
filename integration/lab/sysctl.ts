import { existsSync, readFileSync } from "node:fs"
import type { Namespace } from "./namespace.ts"

/** Returns the value of a sysctl in a namespace, like `sysctl -n`; `key` is a path, like "net/ipv4/ip_forward". */
export async function readSysctl(namespace: Namespace, key: string): Promise<string> {
  return (await namespace.exec("cat", [`/proc/sys/${key}`])).stdout.trim()
}

/** Sets a sysctl in a namespace, like `sysctl -w`; `key` is a path, like "net/ipv4/ip_forward". */
export async function writeSysctl(namespace: Namespace, key: string, value: string): Promise<void> {
  await namespace.exec("tee", [`/proc/sys/${key}`], { input: value })
}

/** The IPv4 settings of an interface whose default in the kernel is not 0; <linux/inetdevice.h>. */
const ipv4Defaults: Readonly<Record<string, string>> = {
  accept_redirects: "1",
  arp_evict_nocarrier: "1",
  igmpv2_unsolicited_report_interval: "10000",
  igmpv3_unsolicited_report_interval: "1000",
  secure_redirects: "1",
  send_redirects: "1",
  shared_media: "1",
}

/**
 * Sets the kernel's default IPv4 settings in a new namespace. By default the namespace copies the machine's settings
 * (netdevice(7), `net.core.devconf_inherit_init_net`), which enable forwarding after docker, podman or kubelet have
 * run.
 */
export async function setIpv4Defaults(namespace: Namespace): Promise<void> {
  // 2: a new namespace already has the kernel's defaults. The file exists only in the machine's own namespace.
  const inherit = "/proc/sys/net/core/devconf_inherit_init_net"
  if (existsSync(inherit) && readFileSync(inherit, "utf8").trim() === "2") return
  const ones = Object.entries(ipv4Defaults).map(([name, value]) => `*/${name}) wanted=${value} ;;`)
  const script = `
    cd /proc/sys/net/ipv4 && echo 0 > ip_forward && cd conf || exit
    for file in all/* default/* lo/*; do
      case $file in
        ${ones.join(" ")}
        default/accept_source_route|lo/accept_source_route|lo/disable_policy|lo/disable_xfrm) wanted=1 ;;
        */mc_forwarding) continue ;; # tells, and cannot be set
        *) wanted=0 ;;
      esac
      echo $wanted > $file || exit
    done`
  await namespace.exec("sh", ["-c", script])
}
