import { closedInside } from "../packets/mod.ts"
import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { inContainer } from "./inside.ts"
import { ofOthers, sh } from "./remedy.ts"

/** What a container does with a packet at a hook, for messages: it gets or sends the packet. */
const WAYS: Readonly<Record<string, string>> = {
  prerouting: "incoming",
  input: "incoming",
  ingress: "incoming",
  output: "outgoing",
  postrouting: "outgoing",
  egress: "outgoing",
}
/** The packets that tables of a family filter, for messages. */
const KINDS: Readonly<Record<string, string>> = {
  ip: "IPv4 packets",
  ip6: "IPv6 packets",
  inet: "packets",
  netdev: "frames",
}
/** A name that nft accepts without quotes. */
const IDENTIFIER = /^[A-Za-z][\w./-]*$/

/** Finds packet filters in containers that drop all packets. Ignores filters that accept some, as intended. */
export const checkContainerFilters: Check = ({ examined }) =>
  examined.flatMap((each): Finding[] => {
    const { one, inside, interfaces } = each
    const addresses = interfaces.flatMap((own) => own.addresses.map(({ ip }) => ip))
    const first = closedInside(inside, one, addresses)
    if (first === undefined) return []
    const { table, name, hook } = first.base
    const drops = `drops all ${WAYS[hook]} ${KINDS[table.family]}`
    const isPlain = IDENTIFIER.test(table.name) && IDENTIFIER.test(name)
    const place = isPlain ? `table ${table.family} ${table.name}, chain ${name}` : `a chain at ${hook}`
    const by = first.rule === undefined ? `${place}, by its policy` : `${place}, handle ${first.rule.handle}`
    return [
      {
        rule: "container-drop",
        severity: "error",
        network: one.network,
        cause: `network ${one.network}`,
        affected: [affectedBy(one)],
        what: `the packet filter in ${nameOf(one)} ${drops}: ${by}`,
        ofMany: (count) => `the packet filters in ${count} containers drop all packets, for example in ${place}`,
        why: "the container cannot send packets, or cannot receive them",
        remedy: ofOthers(
          "the container may be isolated on purpose; if not, allow the packets",
          inContainer(inside, [sh`nft -a list ruleset`]),
        ),
      },
    ]
  })
