import type { BaseChain } from "../../pkg/nftables/mod.ts"
import { formatCidr, networkOf, parseCidr } from "../../pkg/types/mod.ts"
import { bridgesOf, type Finding, type Patient, routedLinks } from "./finding.ts"
import { type Command, inOneLine, sh } from "./remedy.ts"

/** What packets of containers have in common: the bridge that they come by, or their network where each has a link of its own. */
interface Way {
  readonly bridge?: string
  readonly network?: string
}

/** The commands that let packets of containers through a chain, as its maker wants it said. */
export function acceptance(
  patient: Patient,
  base: BaseChain,
  maker: string | undefined,
): Required<Pick<Finding, "remedy" | "note">> | Pick<Finding, "remedy"> {
  const { family } = base.table
  const ways = waysOf(patient).filter(
    ({ network }) => network === undefined || !["ip", "ip6"].includes(family) || family === familyOf(network),
  )
  const say = maker === undefined ? undefined : makers[maker]
  const commands = ways.map((way) => say?.(way, family) ?? acceptedBy(base, way))
  const remedy = inOneLine(maker === "firewalld" ? [...commands, sh`firewall-cmd --reload`] : commands)
  // The plugin firewall lets all its containers through again at each of its ADDs.
  const again = 'the next ADD by the plugin "firewall" does it too, and so does podman network reload --all'
  return patient.members.some(({ type }) => type === "firewall") ? { remedy, note: again } : { remedy }
}

function waysOf(patient: Patient): Way[] {
  const bridges = bridgesOf(patient).filter((name) => routedLinks(patient).includes(name))
  const own = new Set(
    patient.node.links
      .filter(({ name, nsid }) => nsid === undefined && bridges.includes(name))
      .map(({ index }) => index),
  )
  const others = patient.attachments.filter(({ link }) => link?.master === undefined || !own.has(link.master as never))
  const networks = others.flatMap(({ addresses }) =>
    addresses.flatMap((address) => {
      const cidr = parseCidr(address)
      return cidr ? [formatCidr({ ip: networkOf(cidr), prefix: cidr.prefix })] : []
    }),
  )
  return [...bridges.map((bridge) => ({ bridge })), ...[...new Set(networks)].map((network) => ({ network }))]
}

function familyOf(network: string): "ip" | "ip6" {
  return network.includes(":") ? "ip6" : "ip"
}

function acceptedBy({ table, name }: BaseChain, { bridge, network = "" }: Way): Command {
  const chain = [table.family, table.name, name]
  if (bridge === undefined) {
    const family = familyOf(network)
    return sh`nft insert rule ${chain} ${family} saddr ${network} accept; nft insert rule ${chain} ${family} daddr ${network} accept`
  }
  const link = `"${bridge}"`
  return sh`nft insert rule ${chain} iifname ${link} accept; nft insert rule ${chain} oifname ${link} accept`
}

const makers: Readonly<Record<string, (way: Way, family: string) => Command>> = {
  docker: ({ bridge, network = "" }, family) => {
    const program = family === "ip6" ? "ip6tables" : "iptables"
    return bridge === undefined
      ? sh`${program} -I DOCKER-USER -s ${network} -j ACCEPT; ${program} -I DOCKER-USER -d ${network} -j ACCEPT`
      : sh`${program} -I DOCKER-USER -i ${bridge} -j ACCEPT; ${program} -I DOCKER-USER -o ${bridge} -j ACCEPT`
  },
  firewalld: ({ bridge, network = "" }) =>
    bridge === undefined
      ? sh`firewall-cmd --permanent --zone=trusted --add-source=${network}`
      : sh`firewall-cmd --permanent --zone=trusted --add-interface=${bridge}`,
  ufw: ({ bridge, network = "" }) =>
    bridge === undefined
      ? sh`ufw route allow from ${network}; ufw route allow to ${network}`
      : sh`ufw route allow in on ${bridge}; ufw route allow out on ${bridge}`,
}
