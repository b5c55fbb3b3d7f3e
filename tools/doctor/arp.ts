import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import { affectedBy, type Check, type Finding } from "./finding.ts"
import { linkTowards } from "./host-routes.ts"
import { inOneLine, setSysctl, sh } from "./remedy.ts"

/** The value of the sysctl `arp_ignore` that stops all ARP replies. The values 1, 2 and 3 stop only some of them. */
export const NO_ANSWERS = "8"

/** Returns the path of an interface's `arp_ignore`. If the value of "all" is larger, the kernel uses that. */
export function arpSetting(name: string): string {
  return `net/ipv4/conf/${name}/arp_ignore`
}

/** Returns the paths of the sysctls that stop an interface from answering ARP requests. */
export function ignoringArp(name: string, read: (path: string) => string | undefined): string[] {
  return ["all", name].map(arpSetting).filter((path) => read(path) === NO_ANSWERS)
}

/** Finds host interfaces that do not answer containers' ARP requests for their gateway. */
export const checkHostArp: Check = (input) =>
  input.examined.flatMap((examined): Finding[] => {
    const { one, interfaces } = examined
    const link = linkTowards(examined, input)
    const hasIpv4 = interfaces.some(({ addresses }) => addresses.some(({ ip }) => familyOf(ip) === AF_INET))
    if (link === undefined || one.isAlive === false) return []
    const ignoring = hasIpv4 ? ignoringArp(link.name, input.sysctl) : []
    const isOff = link.isWithoutArp === true
    if (!isOff && ignoring.length === 0) return []
    const fault = isOff
      ? "has ARP switched off"
      : `does not answer ARP requests, because ${ignoring.join(" and ")} ${ignoring.length === 1 ? "is" : "are"} ${NO_ANSWERS}`
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
            ? `the host does not answer ARP requests of ${count} containers, because net/ipv4/conf/all/arp_ignore is ${NO_ANSWERS}`
            : `"${link.name}" of the host ${fault}, and ${count} containers have their gateway there`,
        why: "the containers cannot find their gateway once its MAC leaves their neighbor caches",
        remedy: inOneLine([
          ...(isOff ? [sh`ip link set ${link.name} arp on`] : []),
          ...ignoring.map((path) => setSysctl(path, 0)),
        ]),
      },
    ]
  })
