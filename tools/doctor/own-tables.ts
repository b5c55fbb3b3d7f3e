import { ownerComment } from "../../pkg/types/mod.ts"
import { affectedBy, type Check, cniCommand, type Finding, type Patient } from "./finding.ts"
import { sh } from "./remedy.ts"

/** The base chains of tables that ADD makes, each of which has rules. */
const BASE_CHAINS: Readonly<Record<string, readonly string[]>> = {
  cni_masquerade: ["postrouting"],
  cni_hostports: ["prerouting", "output", "postrouting"],
}

/** Tables of ours that are there, and that no packet comes through: dormant ones, and those that have lost a base chain's rules. */
export const checkOwnTables: Check = (patient) => [...dormantTables(patient), ...incompleteTables(patient)]

function dormantTables({ filter }: Patient): Finding[] {
  return (filter?.dormant ?? [])
    .filter(({ name }) => name.startsWith("cni_"))
    .map(({ family, name }) => ({
      rule: "table-dormant",
      severity: "error",
      what: `table ${family} ${name} is dormant: no packet comes through its chains`,
      why: "what its rules do for containers does not happen: masquerade, published ports, policies, the check of MACs",
      remedy: sh`nft add table ${[family, name]}`,
      note: "the next ADD of a plugin that uses the table wakes it, too",
    }))
}

function incompleteTables(patient: Patient): Finding[] {
  const { filter, attachments } = patient
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
    const chains = `${empty.length === 1 ? "chain" : "chains"} ${empty.join(", ")} of table ${table}`
    const living = users.find(({ cached, isAlive }) => cached !== undefined && isAlive === true)
    return [
      {
        rule: "table-incomplete",
        severity: "error",
        cause: `table ${table}`,
        affected: users.map(affectedBy),
        what: `${chains} has no rules, and 1 container needs them`,
        ofMany: (count) => `${chains} has no rules, and ${count} containers need them`,
        why: "packets do not come to what the table has of containers: masquerade and published ports do not work",
        remedy: living
          ? cniCommand(patient, "reattach", [ownerComment(living)])
          : "the next ADD of a plugin that uses the table makes the rules anew",
        ...(living ? { note: "any ADD of a plugin that uses the table makes the rules anew, for all containers" } : {}),
      },
    ]
  })
}
