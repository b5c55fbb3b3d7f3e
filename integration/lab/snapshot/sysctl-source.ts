import type { Source } from "./source.ts"

/** The sysctls that plugins write, and some that they must not. */
const names = [
  ...["ip_forward", "forwarding", "route_localnet", "rp_filter", "proxy_arp", "arp_notify"],
  ...["accept_ra", "accept_dad", "enhanced_dad", "disable_ipv6", "proxy_ndp"],
]

/** The values of `names`, of the namespace and of each link. */
export const sysctlSource: Source = {
  command: [
    "grep",
    "-rsH",
    "",
    ...names.map((name) => `--include=${name}`),
    "/proc/sys/net/ipv4",
    "/proc/sys/net/ipv6",
  ],
  lines: (stdout) =>
    stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => line.replace("/proc/sys/", "").replace(":", " = "))
      .sort(),
}
