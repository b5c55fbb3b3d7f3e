import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import { affectedBy, type Check, type Finding } from "./finding.ts"
import { linkTowards } from "./host-routes.ts"
import { inOneLine, setSysctl, sh } from "./remedy.ts"

/** Of arp_ignore: no request is answered. Those between 0 and this look at the addresses of both sides. */
export const NO_ANSWERS = "8"

/** The settings that decide whether requests on an interface are answered; the larger value counts. */
export function arpSettings(name: string): string[] {
  return ["all", name].map((each) => `net/ipv4/conf/${each}/arp_ignore`)
}

/** Those of them that have an interface answer no request. */
export function ignoringArp(name: string, read: (path: string) => string | undefined): string[] {
  return arpSettings(name).filter((path) => read(path) === NO_ANSWERS)
}

/** Interfaces of the host that answer no container which asks for its gateway. */
export const checkHostArp: Check = (patient) =>
  patient.examined.flatMap((examined): Finding[] => {
    const { one, interfaces } = examined
    const link = linkTowards(examined, patient)
    const hasIpv4 = interfaces.some(({ addresses }) => addresses.some(({ ip }) => familyOf(ip) === AF_INET))
    if (link === undefined || one.isAlive === false) return []
    const ignoring = hasIpv4 ? ignoringArp(link.name, patient.sysctl) : []
    const isOff = link.isWithoutArp === true
    if (!isOff && ignoring.length === 0) return []
    const fault = isOff
      ? "has ARP switched off"
      : `answers no ARP request, since ${ignoring.join(" and ")} is ${NO_ANSWERS}`
    const isOfAll = ignoring.some((path) => path.includes("/all/"))
    return [
      {
        rule: "host-arp-off",
        severity: "error",
        network: one.network,
        cause: isOff || !isOfAll ? `arp of ${link.name}` : "net/ipv4/conf/all/arp_ignore",
        affected: [affectedBy(one)],
        what: `"${link.name}" of the host ${fault}`,
        ofMany: (count) =>
          isOfAll
            ? `the host answers no ARP request of ${count} containers, since net/ipv4/conf/all/arp_ignore is ${NO_ANSWERS}`
            : `"${link.name}" of the host ${fault}, and ${count} containers have their gateway there`,
        why: "the containers do not find their gateway, or only as long as they remember its MAC",
        remedy: inOneLine([
          ...(isOff ? [sh`ip link set ${link.name} arp on`] : []),
          ...ignoring.map((path) => setSysctl(path, 0)),
        ]),
      },
    ]
  })
