import { exists } from "../../pkg/libc/mod.ts"
import { sysctlPath } from "../../pkg/sysctl/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { Backend } from "./config.ts"

/** The link that kube-proxy gives the addresses of all services in its mode ipvs (`defaultDummyDevice`, pkg/proxy/ipvs/proxier.go). */
const LINK = "kube-ipvs0"

/**
 * Returns whether the addresses of services are addresses of the host, where `fib daddr type local` takes them for the host's own. Only
 * the table `nat` of iptables knows which of them are a service's: kube-proxy accepts these at its beginning.
 */
export function hasServiceAddresses(): boolean {
  return exists(sysctlPath(`net/ipv4/conf/${LINK}`)) // the cheapest question; every link with an MTU for IPv4 has the directory
}

/**
 * Returns the backend for what a configuration asks for: iptables while kube-proxy works in mode ipvs, since a mapping in nf_tables would
 * take the traffic of services. Throws `CniError` where the configuration asks for nftables then.
 */
export function chooseBackend(asked: Backend | undefined): Backend | undefined {
  if (asked === "iptables" || !hasServiceAddresses()) return asked
  if (asked === undefined) return "iptables"
  throw new CniError(
    Code.Internal,
    `Cannot map ports by nftables: kube-proxy works in mode ipvs, with the link "${LINK}"`,
    {
      details: `the ports would take the traffic of services; set "backend" to "iptables", with conditions in its language`,
    },
  )
}
