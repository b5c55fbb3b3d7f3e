import { isOfThisSuite } from "../../install/mod.ts"
import { Hostports, localnetGuards } from "../../meta/portmap/main.ts"
import { ownerComment } from "../../pkg/types/mod.ts"
import { pluginsOf } from "./attachments.ts"
import { affectedBy, type Check, cniCommand, containerLinks, type DoctorInput, type Finding } from "./finding.ts"
import { sh } from "./remedy.ts"

/** The base chains that ADD creates in each table, none of which is empty. */
const BASE_CHAINS: Readonly<Record<string, readonly string[]>> = {
  cni_masquerade: ["postrouting"],
  cni_hostports: ["prerouting", "output", "postrouting"],
}

/**
 * Finds tables of this suite without effect, because they are dormant or have an empty base chain. Also finds
 * interfaces whose route_localnet is enabled without the rules that protect 127.0.0.0/8.
 */
export const checkOwnTables: Check = (input) => [
  ...dormantTables(input),
  ...incompleteTables(input),
  ...unguardedLinks(input),
]

function dormantTables({ filter }: DoctorInput): Finding[] {
  return (filter?.dormant ?? [])
    .filter(({ name }) => name.startsWith("cni_"))
    .map(({ family, name }) => ({
      rule: "table-dormant",
      severity: "error",
      what: `table ${family} ${name} is dormant: no packet passes its chains`,
      why: "its rules for masquerade, published ports, policies and MACs have no effect",
      remedy: sh`nft add table ${[family, name]}`,
      note: "the next ADD of a plugin that uses the table also activates it",
    }))
}

function incompleteTables(input: DoctorInput): Finding[] {
  const { filter, attachments } = input
  const dormant = new Set((filter?.dormant ?? []).map(({ family, name }) => `${family} ${name}`))
  return (filter?.tables ?? []).flatMap(({ family, name }): Finding[] => {
    const table = `${family} ${name}`
    if (dormant.has(table)) return []
    const users = attachments.filter(({ rules }) => rules.some(({ place }) => place.startsWith(`${table} `)))
    const used = new Set(
      filter?.rules
        .filter(({ chain }) => `${chain.table.family} ${chain.table.name}` === table)
        .map(({ chain }) => chain.name),
    )
    const empty = (BASE_CHAINS[name] ?? []).filter((chain) => !used.has(chain))
    if (users.length === 0 || empty.length === 0) return []
    const chains =
      empty.length === 1
        ? `chain ${empty[0]} of table ${table} has`
        : `chains ${empty.join(", ")} of table ${table} have`
    const living = users.find(({ cached, isAlive }) => cached !== undefined && isAlive === true)
    return [
      {
        rule: "table-incomplete",
        severity: "error",
        cause: `table ${table}`,
        affected: users.map(affectedBy),
        what: `${chains} no rules, but 1 container needs them`,
        ofMany: (count) => `${chains} no rules, but ${count} containers need them`,
        why: "packets do not reach the table's rules for containers: masquerade and published ports do not work",
        remedy: living
          ? cniCommand(input, "reattach", [ownerComment(living)])
          : "the next ADD of a plugin that uses the table re-creates the rules",
        ...(living ? { note: "any ADD of a plugin that uses the table re-creates the rules, for all containers" } : {}),
      },
    ]
  })
}

/** Reports whether portmap can protect 127.0.0.0/8. If IPv4 has no nf_tables, the administrator must protect it. */
function canGuard(): boolean {
  using hostports = Hostports.open()
  return !hostports.isGuarded()
}

/** Finds interfaces toward containers that accept packets for 127.0.0.0/8, except in reported dormant tables. */
function unguardedLinks(input: DoctorInput): Finding[] {
  const { filter, sysctl, attachments } = input
  if (filter === undefined || filter.dormant?.some(({ name }) => name === "cni_hostports")) return []
  const isThere = ({ chain, comment }: (typeof localnetGuards)[number]) =>
    filter.rules.some(
      (found) =>
        found.comment === comment &&
        found.chain.name === chain.name &&
        found.chain.table.name === chain.table.name &&
        found.chain.table.family === chain.table.family,
    )
  if (localnetGuards.every(isThere)) return []
  const open = containerLinks(input).filter((link) => sysctl(`net/ipv4/conf/${link}/route_localnet`) === "1")
  if (open.length === 0 || !canGuard()) return []
  const isUsed = attachments.some(
    (one) => one.isAlive === true && pluginsOf(one).some(({ type }) => type === "portmap"),
  )
  const canRestore = isUsed && isOfThisSuite(input.plugin("portmap")?.version)
  return open.map(
    (link): Finding => ({
      rule: "route-localnet-open",
      severity: "error",
      cause: "chain raw of table ip cni_hostports",
      affected: [{ name: `"${link}"` }],
      what: `route_localnet of "${link}" is 1, but no rule of table ip cni_hostports protects 127.0.0.0/8`,
      ofMany: (count) =>
        `route_localnet of ${count} interfaces of containers is 1, but no rule of table ip cni_hostports protects 127.0.0.0/8`,
      why: "containers can reach services of the host that listen only on 127.0.0.1, unless a rule of another program drops the packets",
      remedy: canRestore
        ? cniCommand(input, "reconcile", [])
        : "set it to 0: no running container uses this suite's portmap, which needs the setting and protects 127.0.0.0/8",
      ...(canRestore ? { note: "the next ADD, CHECK, DEL or GC of portmap also restores the rules" } : {}),
    }),
  )
}
