import { CniError, Code } from "../../pkg/types/mod.ts"

/**
 * The files below /proc/sys that a key of `sysctl` may mean, the likeliest first, with the first "IFNAME" replaced by
 * the interface's name. As in sysctl(8) the first separator decides: after a dot dots separate and slashes stand for
 * dots ("net.ipv4.conf.eth0/100.rp_filter"), after a slash dots belong to the name. Upstream takes every dot for a
 * separator, so that reading comes second. "IFNAME" is replaced last: the name may have dots of its own.
 *
 * Throws code 7 for a key that is not below "net": other settings are the whole machine's.
 */
export function sysctlPaths(key: string, ifName: string): string[] {
  const paths: string[] = []
  for (const reading of [firstSeparatorDecides(key), key.replaceAll(".", "/")]) {
    const parts = reading.split("/").filter((part) => part !== "")
    const path = parts.join("/").replace("IFNAME", () => ifName) // not as text: "$&" may be a name
    const isInside = parts[0] === "net" && parts.length > 1 && !parts.includes(".") && !parts.includes("..")
    if (isInside && !paths.includes(path)) paths.push(path)
  }
  if (paths.length > 0) return paths
  throw new CniError(Code.InvalidNetworkConfig, `Cannot use "sysctl": invalid net sysctl key ${JSON.stringify(key)}`, {
    details: "expected a setting of the container's network, such as net.ipv4.conf.IFNAME.arp_filter",
  })
}

function firstSeparatorDecides(key: string): string {
  const slash = key.indexOf("/")
  const dot = key.indexOf(".")
  if (dot === -1 || (slash !== -1 && slash < dot)) return key
  return key.replace(/[./]/g, (separator) => (separator === "." ? "/" : "."))
}
