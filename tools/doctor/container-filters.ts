import { type Base, type Closed, closedBy, indexed } from "./closed-chains.ts"
import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { type Examined, inContainer } from "./inside.ts"
import { ofOthers, sh } from "./remedy.ts"

/** The hooks of what a container gets or sends itself, in words. */
const WAYS: Readonly<Record<string, string>> = {
  prerouting: "gets",
  input: "gets",
  ingress: "gets",
  output: "sends",
  postrouting: "sends",
  egress: "sends",
}
/** The packets of a table's chains, by its family. */
const KINDS: Readonly<Record<string, string>> = {
  ip: "IPv4 packets",
  ip6: "IPv6 packets",
  inet: "packets",
  netdev: "frames",
}
/** What nft takes for a name without quotes. */
const IDENTIFIER = /^[A-Za-z][\w./-]*$/

/** Packet filters in containers that let nothing pass. What a chain accepts in part is the container's own affair. */
export const checkContainerFilters: Check = ({ examined }) =>
  examined.flatMap((each): Finding[] => {
    const { one, inside } = each
    const [first] = (inside.filter?.bases ?? []).flatMap((base) => closedInside(base, each) ?? [])
    if (first === undefined) return []
    const { table, name, hook } = first.base
    const drops = `drops all ${KINDS[table.family]} that it ${WAYS[hook]}`
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
        ofMany: (count) => `the packet filters in ${count} containers let nothing pass, as in ${place}`,
        why: "the container reaches nothing, or nothing reaches it",
        remedy: ofOthers(
          "it may be meant to be there, where the container is shut off on purpose: if it is not, let packets pass",
          inContainer(inside, [sh`nft -a list ruleset`]),
        ),
      },
    ]
  })

/** What drops all that passes an attachment's interface in a base chain. Of its chains only these were read, and not those that they jump to. */
function closedInside(base: Base, { inside, one, interfaces }: Examined): Closed | undefined {
  const { table, devices, type, hook } = base
  if (type === "nat" || !(hook in WAYS) || !(table.family in KINDS) || inside.filter === undefined) return undefined
  if (devices !== undefined && !devices.includes(one.ifName)) return undefined
  const isUsed = (length: number) =>
    interfaces.some(({ addresses }) => addresses.some(({ ip }) => ip.length === length))
  if ((table.family === "ip" && !isUsed(4)) || (table.family === "ip6" && !isUsed(16))) return undefined
  const rulesOf = indexed(inside.filter)
  const index = inside.links?.find(({ name }) => name === one.ifName)?.index
  const direction = WAYS[hook] === "gets" ? "in" : "out"
  return closedBy(base, { direction, device: one.ifName, index }, (of, chain) =>
    chain === base.name ? rulesOf(of, chain) : undefined,
  )
}
