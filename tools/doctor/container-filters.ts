import { decodeLatin1 } from "../../pkg/engine/mod.ts"
import { u32 } from "../../pkg/netlink/mod.ts"
import { extensionAttributes, NFT_CMP } from "../../pkg/nftables/mod.ts"
import { type FilterView, verdictOf } from "../node/mod.ts"
import { affectedBy, type Check, type Finding, nameOf } from "./finding.ts"
import { type Examined, inContainer } from "./inside.ts"
import { type Command, sh } from "./remedy.ts"

type Base = FilterView["bases"][number]
type Rule = FilterView["rules"][number]

/** A base chain that lets nothing pass by an interface, by a rule of it or by its policy. */
interface Closed {
  readonly base: Base
  readonly rule?: Rule
}

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
/** The chains that one command changes; a container may have thousands. */
const SOME = 4

/** Packet filters in containers that let nothing pass. What a chain accepts in part is the container's own affair. */
export const checkContainerFilters: Check = ({ examined }) =>
  examined.flatMap((each): Finding[] => {
    const { one, inside } = each
    const closed = (inside.filter?.bases ?? []).flatMap((base) => closedBy(base, each) ?? [])
    const [first] = closed
    if (first === undefined) return []
    const { table, name, hook } = first.base
    const drops = `drops all ${KINDS[table.family]} that it ${WAYS[hook]}`
    const place = `table ${table.family} ${table.name}, chain ${name}`
    const by = first.rule === undefined ? `${place}, by its policy` : `${place}, handle ${first.rule.handle}`
    const isPlain = closed.every(({ base }) => IDENTIFIER.test(base.table.name) && IDENTIFIER.test(base.name))
    return [
      {
        rule: "container-drop",
        severity: "error",
        network: one.network,
        cause: `network ${one.network}`,
        affected: [affectedBy(one)],
        what: `the packet filter in ${nameOf(one)} ${drops}: ${isPlain ? by : `a chain at ${hook}`}`,
        ofMany: (count) =>
          `the packet filters in ${count} containers let nothing pass, as in ${isPlain ? place : `a chain at ${hook}`}`,
        why: "the container reaches nothing, or nothing reaches it",
        remedy: isPlain
          ? inContainer(inside, closed.slice(0, SOME).map(opened))
          : `nsenter --net=${inside.path} nft list ruleset shows it`,
        note: "it may be meant to be there, where the container is shut off on purpose",
      },
    ]
  })

/** What nft takes for a name without quotes. */
const IDENTIFIER = /^[A-Za-z][\w./-]*$/

/** The end of a base chain for all that passes an attachment's interface; undefined where a rule may let something pass, or goes on elsewhere. */
function closedBy(base: Base, { inside, one, interfaces }: Examined): Closed | undefined {
  const { table, devices, type, hook } = base
  if (type === "nat" || !(hook in WAYS) || !(table.family in KINDS)) return undefined
  if (devices !== undefined && !devices.includes(one.ifName)) return undefined
  const isUsed = (length: number) =>
    interfaces.some(({ addresses }) => addresses.some(({ ip }) => ip.length === length))
  if ((table.family === "ip" && !isUsed(4)) || (table.family === "ip6" && !isUsed(16))) return undefined
  const rules = inside.filter?.rules.filter(
    ({ chain }) => chain.name === base.name && chain.table.name === table.name && chain.table.family === table.family,
  )
  for (const rule of rules ?? []) {
    const concerned = interfaceOf(rule, inside)
    const isOfOther = concerned !== undefined && concerned !== "" && concerned !== one.ifName
    if (isOfOther || isSilent(rule)) continue
    if (!isDropping(rule)) return undefined
    if (concerned !== undefined) return { base, rule }
  }
  return base.policy === "drop" ? { base } : undefined
}

/** `enum nft_meta_keys`, <linux/netfilter/nf_tables.h>: iif, oif, iifname, oifname. */
const [META_INDEXES, META_NAMES] = [
  [4, 5],
  [6, 7],
]
/** Expressions without an effect on the packet, and targets of iptables without one. */
const WITHOUT_EFFECT = new Set(["counter", "log", "last"])
const TARGETS_WITHOUT_EFFECT = new Set(["LOG", "NFLOG", "TRACE"])
const COMPARING = new Set(["meta", "payload", "cmp", "bitwise", "ct", "match", "limit", "range", "byteorder"])

/** The interface whose packets alone a rule is about, "" where it is about all; undefined where it asks more of them. */
function interfaceOf({ expressions }: Rule, { links }: Examined["inside"]): string | undefined {
  const asked = expressions.filter((each) => COMPARING.has(each.name))
  if (asked.length === 0) return ""
  const [load, compared, ...more] = asked
  if (load?.name !== "meta" || compared?.name !== "cmp" || more.length > 0) return undefined
  if (load.data instanceof Uint8Array || compared.data instanceof Uint8Array) return undefined
  const value = compared.data.data?.value ?? new Uint8Array(0)
  if ((compared.data.op ?? 0) !== NFT_CMP["=="]) return undefined
  const { key = 0 } = load.data
  if (META_INDEXES?.includes(key)) return links?.find(({ index }) => index === u32.decode(value))?.name
  const [name, ...rest] = decodeLatin1(value).split("\0")
  return META_NAMES?.includes(key) && rest.length > 0 ? name : undefined // without a zero it is the beginning of a name
}

function isDropping(rule: Rule): boolean {
  return verdictOf(rule) === "drop" || targetsOf(rule).some((name) => name === "REJECT" || name === "DROP")
}

function isSilent(rule: Rule): boolean {
  const isHarmless = ({ name }: Rule["expressions"][number]) =>
    WITHOUT_EFFECT.has(name) || COMPARING.has(name) || name === "target"
  const harmlessTargets = targetsOf(rule).every((name) => TARGETS_WITHOUT_EFFECT.has(name))
  return verdictOf(rule) === undefined && harmlessTargets && rule.expressions.every(isHarmless)
}

/** The targets of iptables that a rule has. */
function targetsOf({ expressions }: Rule): string[] {
  return expressions.flatMap(({ name, data }) =>
    name === "target" && data instanceof Uint8Array ? (extensionAttributes.decode(data).name ?? "") : [],
  )
}

function opened({ base: { table, name }, rule }: Closed): Command {
  const chain = [table.family, table.name, name]
  return rule === undefined
    ? sh`nft add chain ${chain} ${"{ policy accept; }"}`
    : sh`nft delete rule ${chain} handle ${String(rule.handle)}`
}
