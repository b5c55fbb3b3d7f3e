import { IFA_F_DADFAILED } from "../../pkg/netlink/mod.ts"
import { formatIp, sameBytes } from "../../pkg/types/mod.ts"
import { affectedBy, type Check, type DoctorInput, type Finding, nameOf } from "./finding.ts"
import { type Examined, type ExaminedInterface, inContainer } from "./inside.ts"
import { type Command, giveAddress, inOneLine, ofOthers, sh } from "./remedy.ts"

/** A container's interface in a layer 2 segment: a VLAN of a bridge, or the macvlans of one parent. */
interface Station {
  readonly examined: Examined
  readonly one: ExaminedInterface
  readonly segment: string
}

/** Finds addresses and MACs that two containers of one segment share, and container addresses that their bridge has. */
export const checkSegments: Check = ({ examined, node }) => {
  const stations = examined.flatMap((each) =>
    each.interfaces.flatMap((one): Station[] => {
      const segment = segmentOf(each, one)
      return segment === undefined ? [] : [{ examined: each, one, segment }]
    }),
  )
  return [...addressesTwice(stations), ...addressesOfBridges(stations, node), ...macsTwice(stations)]
}

/** Finds result addresses that the kernel does not use: duplicate address detection found another holder. */
export const checkFailedAddresses: Check = ({ examined }) =>
  examined.flatMap(({ one, inside, interfaces }) =>
    interfaces.flatMap(({ name, link, addresses }) => {
      const failed = (inside.addresses ?? []).filter(
        ({ index, flags, ip }) =>
          index === link?.index && (flags & IFA_F_DADFAILED) !== 0 && addresses.some((own) => sameBytes(own.ip, ip)),
      )
      return failed.map(({ ip, prefix }): Finding => {
        const address = `${formatIp(ip)}/${prefix}`
        return {
          rule: "container-address-failed",
          severity: "error",
          network: one.network,
          affected: [affectedBy(one)],
          what: `${formatIp(ip)} of interface "${name}" of ${nameOf(one)} is not in use: duplicate address detection (DAD) found another holder`,
          why: "the container neither sends from the address nor answers for it, even after the other holder has lost it",
          remedy: inContainer(inside, [sh`ip address delete ${address} dev ${name}`, giveAddress(address, name)]),
          note: "find the other holder first: ip -6 neighbour on another host of the segment shows its MAC",
          consequenceOf: ["address-twice", "host-has-address"],
        }
      })
    }),
  )

/** Finds container addresses that the host also has on their bridge or VLAN, as the gateway of other containers. */
function addressesOfBridges(stations: readonly Station[], { links }: DoctorInput["node"]): Finding[] {
  const isSegment = ({ kind }: (typeof links)[number]) => kind === "bridge" || kind === "vlan"
  const onHost = links.filter((link) => link.nsid === undefined && isSegment(link) && link.addresses.length > 0)
  return stations.flatMap(({ examined: { one, inside }, one: { name, link } }) => {
    const bridge = one.link?.master
    const isOnBridge = ({ index, peer, peerNsid, kind }: (typeof links)[number]) =>
      index === bridge || (kind === "vlan" && peerNsid === undefined && peer === bridge)
    const devices = bridge === undefined ? [] : onHost.filter(isOnBridge)
    const own = inside.addresses?.filter(({ index, scope }) => scope === 0 && index === link?.index) ?? []
    return own.flatMap((address): Finding[] => {
      const ip = formatIp(address.ip)
      const device = devices.find(({ addresses }) => addresses.some((each) => each.split("/")[0] === ip))
      if (device === undefined) return []
      return [
        {
          rule: "address-of-gateway",
          severity: "error",
          network: one.network,
          cause: `${ip} of ${device.name}`,
          affected: [affectedBy(one)],
          what: `interface "${name}" of ${nameOf(one)} has ${ip}, which the host has on "${device.name}"`,
          ofMany: (count) => `${count} containers have ${ip}, which the host has on "${device.name}"`,
          why: "containers that request their gateway's MAC may get this container's MAC, and then send their packets for other networks to it",
          remedy: ofOthers(
            "remove the address from the container",
            inContainer(inside, [sh`ip address show dev ${name}`]),
          ),
        },
      ]
    })
  })
}

/** Returns an interface's segment, such as a VLAN of a bridge, or undefined if the host routes its packets. */
function segmentOf({ one: { link: end }, plugins }: Examined, { link }: ExaminedInterface): string | undefined {
  if (link === undefined) return undefined
  const { link: parent, linkNetnsId } = link.attributes
  if (link.kind === "macvlan" && linkNetnsId !== undefined) return `macvlan ${linkNetnsId} ${parent}`
  if (link.kind !== "veth" || end === undefined || end.nsid !== undefined || end.index !== parent) return undefined
  const { vlan, vlanTrunk } = plugins.find(({ type }) => type === "bridge")?.raw ?? {}
  return end.master === undefined ? undefined : `bridge ${end.master} ${JSON.stringify([vlan ?? 0, vlanTrunk ?? 0])}`
}

function addressesTwice(stations: readonly Station[]): Finding[] {
  const held = stations.flatMap((station) => {
    const { inside } = station.examined
    const own = inside.addresses?.filter(({ index, scope }) => scope === 0 && index === station.one.link?.index) ?? []
    return own.map((address) => ({ station, address, ip: formatIp(address.ip) }))
  })
  return twice(held, ({ station, ip }) => `${station.segment} ${ip}`).map((holders): Finding => {
    const added = holders.find(({ station, ip }) => !station.one.addresses.some((each) => formatIp(each.ip) === ip))
    const [{ ip = "" } = {}] = holders
    return {
      ...common(holders),
      rule: "address-twice",
      what: `several containers have the same address on one segment, ${ip}`,
      ofMany: (count) => `${count} containers have the same address on one segment, ${ip}`,
      why: "each gets some of the other's packets",
      remedy: added
        ? ofOthers(
            `remove the address from ${nameOf(added.station.examined.one)}`,
            inContainer(added.station.examined.inside, [sh`ip address show dev ${added.station.one.name}`]),
          )
        : START_AGAIN,
      consequenceOf: ["duplicate-address"],
    }
  })
}

function macsTwice(stations: readonly Station[]): Finding[] {
  const held = stations.flatMap((station) => (station.one.link ? [{ station, mac: station.one.link.mac }] : []))
  return twice(held, ({ station, mac }) => `${station.segment} ${mac}`).map((holders): Finding => {
    const changed = holders.filter(({ station, mac }) => station.one.mac !== undefined && station.one.mac !== mac)
    return {
      ...common(holders),
      rule: "mac-twice",
      what: `several containers have the same MAC on one segment, ${holders[0]?.mac}`,
      ofMany: (count) => `${count} containers have the same MAC on one segment, ${holders[0]?.mac}`,
      why: "the bridge sends frames for one to the other",
      remedy: mended(
        changed.map(({ station: { examined, one } }) =>
          inContainer(examined.inside, [sh`ip link set ${one.name} address ${one.mac ?? ""}`]),
        ),
      ),
    }
  })
}

/** Returns the groups with equal keys whose members are in several namespaces. */
function twice<T extends { station: Station }>(held: readonly T[], keyOf: (one: T) => string): T[][] {
  const groups = Map.groupBy(held, keyOf)
  return [...groups.values()].filter(
    (group) => new Set(group.map(({ station }) => station.examined.inside.inode)).size > 1,
  )
}

function common(holders: readonly { station: Station }[]): Pick<Finding, "severity" | "network" | "affected"> {
  const attachments = holders.map(({ station }) => station.examined.one)
  const [network = "", ...others] = new Set(attachments.map((one) => one.network))
  return {
    severity: "error",
    ...(others.length === 0 ? { network } : {}),
    affected: attachments.map(affectedBy),
  }
}

/** The remedy for duplicates that ADD itself assigned. */
const START_AGAIN = "delete one of them and start it again"

function mended(commands: readonly Command[]): Finding["remedy"] {
  return commands.length > 0 ? inOneLine(commands) : START_AGAIN
}
