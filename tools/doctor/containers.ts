import { IFF_NOARP, OperState } from "../../pkg/netlink/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import { arpSetting, ignoringArp, NO_ANSWERS } from "./arp.ts"
import { about as madeAnew } from "./attachments.ts"
import { affectedBy, type Check, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import {
  type Examined,
  type ExaminedInterface,
  inContainer,
  isLoopback,
  isUp,
  renameCommands,
  repairCommands,
} from "./inside.ts"
import { setSysctl, sh } from "./remedy.ts"

/** Finds namespaces that could not be read, and namespaces with lists that were too long to read. */
export const checkInsides: Check = ({ attachments, insides }) =>
  attachments.flatMap((one): Finding[] => {
    const inside = one.netns === undefined ? undefined : insides.get(one.netns)
    if (inside === undefined || one.isAlive === false) return []
    const about = { severity: "warning", network: one.network, affected: [affectedBy(one)] } as const
    if ("reason" in inside)
      return [
        {
          ...about,
          rule: "container-unread",
          cause: "the right to enter namespaces",
          what: `the namespace "${inside.path}" of ${nameOf(one)} cannot be inspected: ${inside.reason}`,
          ofMany: (count) => `the namespaces of ${count} containers cannot be inspected: ${inside.reason}`,
          why: "faults in the container are not among these findings",
          remedy: "run cni doctor as root on the host, in its own namespaces",
        },
      ]
    if (inside.notWhole.length === 0) return []
    const lists = inside.notWhole.join(" and ")
    return [
      {
        ...about,
        rule: "container-not-whole",
        cause: inside.path,
        what: `${nameOf(one)} has too many ${lists}: only some were read`,
        why: `faults in the ${lists} of this container are not among these findings`,
        remedy: sh`nsenter ${`--net=${inside.path}`} ip ${inside.notWhole[0]?.replace(/e?s$/, "") ?? ""}`,
      },
    ]
  })

/**
 * Finds interfaces in containers that are missing, down, or different from ADD's result. Reports only the first fault
 * of each interface, because others follow from it.
 */
export const checkContainerLinks: Check = (input) =>
  input.examined.flatMap((examined) =>
    examined.interfaces.flatMap((one) => {
      const found = lostLink(examined, one, input) ?? withoutCarrier(examined, one, input)
      return found
        ? [found]
        : [...changedMac(examined, one), ...changedMtu(examined, one, input), ...withoutArp(examined, one)]
    }),
  )

/** Returns the shared properties of findings about one interface. */
export function about({ one }: Examined, { name }: Pick<ExaminedInterface, "name">) {
  const whose = nameOf(one)
  return {
    common: { network: one.network, cause: `network ${one.network}`, affected: [affectedBy(one)] },
    what: `interface "${name}" of ${whose}`,
    /** Returns the description of a fault that several containers share. */
    ofMany: (fault: string) => (count: number) => `interface "${name}" ${fault} in ${count} containers`,
  } as const
}

function lostLink(examined: Examined, one: ExaminedInterface, input: DoctorInput): Finding | undefined {
  const { inside } = examined
  const { link, addresses } = one
  if (inside.links === undefined) return undefined
  if (link === undefined) return missingLink(examined, one, input)
  if (isUp(link) || addresses.length === 0) return undefined
  const { common, what, ofMany } = about(examined, one)
  return {
    ...common,
    rule: "container-link-down",
    severity: "error",
    what: `${what} is down`,
    ofMany: ofMany("is down"),
    why: "no packet passes it, and the kernel has deleted its routes",
    remedy: inContainer(inside, repairCommands(examined, one)),
  }
}

/** Returns the finding about a missing interface. It was renamed if a link that no attachment names has its MAC. */
function missingLink(examined: Examined, one: ExaminedInterface, input: DoctorInput): Finding {
  const { inside, linkNames } = examined
  const { common, what, ofMany } = about(examined, one)
  const renamed = inside.links?.filter((link) => link.mac.toLowerCase() === one.mac && !linkNames.has(link.name)) ?? []
  const [other] = renamed.length === 1 ? renamed : []
  const base = {
    ...common,
    rule: "container-link-missing",
    severity: "error",
    consequenceOf: ["missing-host-end"],
  } as const
  if (other)
    return {
      ...base,
      what: `${what} was renamed to "${other.name}"`,
      ofMany: ofMany("was renamed"),
      why: "CHECK fails, programs that use the interface's name fail, and the DEL of some plugins leaves the interface",
      remedy: inContainer(inside, renameCommands(examined, one, other.name)),
    }
  const { remedy, note } = madeAnew(examined.one, input)
  return {
    ...base,
    what: `${what} does not exist`,
    ofMany: ofMany("does not exist"),
    why: "the container is not connected to the network",
    remedy,
    note,
  }
}

/** Finds an interface that is up without carrier, except veth pairs, which another check examines. */
function withoutCarrier(examined: Examined, one: ExaminedInterface, { node }: DoctorInput): Finding | undefined {
  const { link } = one
  if (link === undefined || isLoopback(link) || !isUp(link)) return undefined
  const { operState, carrier, link: parent, linkNetnsId } = link.attributes
  const isDead = carrier === 0 || operState === OperState.LowerLayerDown || operState === OperState.Down
  if (!isDead || link.kind === "veth" || link.kind === "tun") return undefined // a tap has no carrier until a program opens it
  const master =
    linkNetnsId === undefined ? undefined : node.links.find(({ index, nsid }) => nsid === undefined && index === parent)
  const { common, what } = about(examined, one)
  const why = "the container can neither send nor receive packets"
  if (master === undefined || master.isUp)
    return {
      ...common,
      cause: `link ${master?.name ?? parent}`,
      rule: "container-no-carrier",
      severity: "error",
      what: `${what} has no carrier${master ? `, although its master "${master.name}" on the host is up` : ""}`,
      why,
      remedy: "check the cable and the switch; ip -d link shows the state of each interface",
    }
  return {
    ...common,
    cause: `link ${master.name}`,
    rule: "container-no-carrier",
    severity: "error",
    what: `${what} has no carrier: its master "${master.name}" on the host is down`,
    ofMany: (count) => `"${master.name}" of the host, the master of interfaces of ${count} containers, is down`,
    why,
    remedy: sh`ip link set ${master.name} up`,
  }
}

function changedMac(examined: Examined, one: ExaminedInterface): Finding[] {
  const { name, link, mac } = one
  if (link === undefined || mac === undefined || isLoopback(link) || link.mac.toLowerCase() === mac) return []
  const { common, what, ofMany } = about(examined, one)
  return [
    {
      ...common,
      rule: "container-mac-changed",
      severity: "warning",
      what: `${what} has MAC ${link.mac}, but ADD assigned ${mac}`,
      ofMany: ofMany("does not have the MAC that ADD assigned"),
      why: "its neighbors send to the former MAC until their caches expire, and a check of source MACs drops its packets",
      remedy: inContainer(examined.inside, [sh`ip link set ${name} address ${mac}`]),
      consequenceOf: ["mac-twice"],
    },
  ]
}

/** Finds an MTU above that of the host's end, which drops larger packets. Ignores smaller MTUs, which are harmless. */
function changedMtu(examined: Examined, one: ExaminedInterface, { node }: DoctorInput): Finding[] {
  const { name, link } = one
  const end = examined.one.link
  if (link?.kind !== "veth" || end === undefined || end.nsid !== undefined || end.index !== link.attributes.link)
    return []
  const master = node.links.find(({ index, nsid }) => nsid === undefined && index === end.master)
  if (link.mtu <= end.mtu || (master !== undefined && master.mtu !== end.mtu)) return [] // the finding mtu-mismatch reports it
  const { common, what, ofMany } = about(examined, one)
  return [
    {
      ...common,
      rule: "container-mtu",
      severity: "warning",
      what: `${what} has MTU ${link.mtu}, but its end on the host, "${end.name}", has ${end.mtu}`,
      ofMany: ofMany("has a larger MTU than its end on the host"),
      why: "large packets of the container are dropped, while small ones such as pings pass",
      remedy: inContainer(examined.inside, [sh`ip link set ${name} mtu ${end.mtu}`]),
    },
  ]
}

/** Kinds of links that have their own MAC and whose ARP no plugin turns off. */
const ETHERNET = new Set(["veth", "macvlan", "vlan"])
/** Finds a container's interface that sends no ARP requests, or answers none. */
function withoutArp(examined: Examined, one: ExaminedInterface): Finding[] {
  const { name, link, addresses } = one
  const { inside } = examined
  if (link === undefined || !ETHERNET.has(link.kind)) return []
  if (link.flags & IFF_NOARP) {
    const { common, what, ofMany } = about(examined, one)
    return [
      {
        ...common,
        rule: "container-arp-off",
        severity: "error",
        what: `${what} has ARP switched off`,
        ofMany: ofMany("has ARP switched off"),
        why: "the container neither requests MACs of neighbors nor announces its own",
        remedy: inContainer(inside, [sh`ip link set ${name} arp on`]),
      },
    ]
  }
  const own = link.attributes.settings?.inet?.arpIgnore
  const ignoring = ignoringArp(name, (path) => (path === arpSetting(name) ? String(own) : inside.settings.get(path)))
  if (ignoring.length === 0 || !addresses.some(({ ip }) => familyOf(ip) === AF_INET)) return []
  const { common, what, ofMany } = about(examined, one)
  return [
    {
      ...common,
      rule: "container-arp-ignored",
      severity: "error",
      what: `${what} does not answer ARP requests: ${ignoring.join(" and ")} ${ignoring.length === 1 ? "is" : "are"} ${NO_ANSWERS}`,
      ofMany: ofMany(`does not answer ARP requests (arp_ignore is ${NO_ANSWERS})`),
      why: "host and neighbors cannot find the container once its MAC leaves their caches",
      remedy: inContainer(
        inside,
        ignoring.map((path) => setSysctl(path, 0)),
      ),
    },
  ]
}
