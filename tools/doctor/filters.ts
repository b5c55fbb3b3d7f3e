import { type FoundRule, ifnameValue } from "../../pkg/nftables/mod.ts"
import { networkOf, parseCidr } from "../../pkg/types/mod.ts"
import { chainsAt, comparesWith, type FilterView, isUnconditional, verdictOf } from "../node/mod.ts"
import { acceptance } from "./acceptance.ts"
import { affectedBy, bridgesOf, type Check, containerLinks, type Finding, type Patient } from "./finding.ts"
import { inOneLine, sh } from "./remedy.ts"

/** Tables of this suite, and of the reference suite. */
const OURS = /^cni_/

/** The chain of iptables in which the plugin firewall, of either suite, accepts its containers. */
const FIREWALL_CHAIN = "CNI-FORWARD"

/** Rules of others that drop what containers send or get. */
export const checkDrops: Check = (patient) => {
  const { filter, attachments } = patient
  if (!filter || attachments.length === 0) return []
  const values = valuesOf(patient)
  const bases = filter.bases.filter(
    ({ hook, type, table }) =>
      hook === "forward" && type === "filter" && table.family !== "bridge" && !OURS.test(table.name),
  )
  return bases.flatMap((base): Finding[] => {
    const rules = rulesOf(filter, base.table, chainsAt(filter, base))
    const maker = makerOf(filter, base.table.name)
    const { family, name } = base.table
    const place = `table ${family} ${name}, chain ${base.name}${maker === undefined ? "" : ` (made by ${maker})`}`
    const about = {
      severity: "error" as const,
      cause: place,
      affected: attachments.map(affectedBy),
      why: whyOf(patient),
    }
    const mentions = (rule: FoundRule) => comparesWith(rule, values)
    const explicit = rules.filter((rule) => verdictOf(rule) === "drop" && mentions(rule) && !isUnconditional(rule))
    const shown = (rule: FoundRule) => `chain ${rule.chain.name}, handle ${rule.handle}`
    if (explicit.length > 0) {
      const what = `a rule in ${place} drops packets of containers: ${explicit.map(shown).join("; ")}`
      const remedy = inOneLine(explicit.map(deletionOf))
      return [{ ...about, rule: "forward-drop-rule", what, ofMany: () => what, remedy }]
    }
    const letsThrough = (rule: FoundRule) =>
      mentions(rule) || isUnconditional(rule) || rule.chain.name === FIREWALL_CHAIN
    if (rules.some((rule) => verdictOf(rule) === "accept" && letsThrough(rule))) return []
    const last = rules.find(
      (rule) => rule.chain.name === base.name && verdictOf(rule) === "drop" && isUnconditional(rule),
    )
    if (last === undefined && base.policy === "accept") return []
    const what =
      last === undefined
        ? `${place} drops what no rule of it accepts, and none accepts containers`
        : `a rule in ${place} drops all packets, and none accepts those of containers: ${shown(last)}`
    const rule = last === undefined ? "forward-drop" : "forward-drop-rule"
    return [{ ...about, rule, what, ofMany: () => what, ...acceptance(patient, base, maker) }]
  })
}

function whyOf({ sysctl }: Patient): string {
  const why =
    "a drop is final, also where other tables accept: containers reach nothing beyond their bridge, published ports do not answer"
  return sysctl("net/bridge/bridge-nf-call-iptables") === "1"
    ? `${why}; net/bridge/bridge-nf-call-iptables is 1: frames between containers of one bridge are dropped too`
    : why
}

function deletionOf({ chain: { table, name }, handle }: FoundRule) {
  return sh`nft delete rule ${[table.family, table.name, name]} handle ${String(handle)}`
}

/** The program that owns the rules of a table, by its chains' names. */
function makerOf({ rules, bases }: FilterView, table: string): string | undefined {
  if (table === "firewalld") return "firewalld"
  const names = new Set(
    [...rules.map(({ chain }) => chain), ...bases]
      .filter((chain) => chain.table.name === table)
      .map(({ name }) => name),
  )
  const targets = rules.filter(({ chain }) => chain.table.name === table).map(verdictOf)
  for (const target of targets) if (typeof target === "object") names.add(target.jump)
  const signs = { docker: /^DOCKER/, ufw: /^ufw-/, "kube-proxy": /^KUBE-/ }
  return Object.entries(signs).find(([, sign]) => [...names].some((name) => sign.test(name)))?.[0]
}

function rulesOf({ rules }: FilterView, table: { family: string; name: string }, chains: readonly string[]) {
  return rules.filter(
    ({ chain }) =>
      chain.table.name === table.name && chain.table.family === table.family && chains.includes(chain.name),
  )
}

/** The operands of rules about containers: interfaces by name, and networks by prefix. */
export function valuesOf(patient: Patient): Uint8Array[] {
  const names = [...new Set([...containerLinks(patient), ...bridgesOf(patient)])]
  const networks = patient.attachments.flatMap(({ addresses }) =>
    addresses.flatMap((address) => {
      const cidr = parseCidr(address)
      return cidr && cidr.prefix > 0 ? [networkOf(cidr).subarray(0, Math.max(1, cidr.prefix >> 3))] : []
    }),
  )
  return [...names.map(ifnameValue), ...networks]
}

/** NAT of others that comes before ours at the same hook and has rules for the containers' own packets. */
export const checkShadows: Check = (patient) => {
  const { filter } = patient
  const hasPorts = patient.node.rules.ports.length > 0
  if (!filter || !hasPorts) return []
  const own = filter.bases.find(({ table, hook }) => table.name === "cni_hostports" && hook === "prerouting")
  const ports = new Map(patient.node.rules.ports.map(({ port, hostPort }) => [port, hostPort]))
  const bases = filter.bases.filter(
    ({ type, hook, table, priority }) =>
      type === "nat" && hook === "prerouting" && !OURS.test(table.name) && priority <= (own?.priority ?? -100),
  )
  return bases.flatMap((base) =>
    rulesOf(filter, base.table, chainsAt(filter, base)).flatMap((rule): Finding[] => {
      const isNat = rule.expressions.some(({ name }) => name === "nat" || name === "redir" || name === "target")
      const port = isNat ? [...ports.keys()].find((each) => comparesWithPort(rule, each)) : undefined
      if (port === undefined) return []
      return [
        {
          rule: "port-shadowed",
          severity: "error",
          what: `a rule in table ${base.table.family} ${base.table.name}, chain ${rule.chain.name}, takes port ${ports.get(port)} first`,
          why: "packets to that port of the host do not reach the container",
          cause: `table ${base.table.family} ${base.table.name}, chain ${rule.chain.name}`,
          affected: [{ name: `port ${ports.get(port)}` }],
          ofMany: (count) =>
            `rules in table ${base.table.family} ${base.table.name}, chain ${rule.chain.name}, take ${count} published ports first`,
          remedy: deletionOf(rule),
          note: "or choose another port",
        },
      ]
    }),
  )
}

/** Whether a rule compares two bytes with a port, in a comparison of nf_tables or in the match tcp of iptables. */
function comparesWithPort({ expressions }: FilterView["rules"][number], port: number): boolean {
  return expressions.some(({ name, data }) => {
    if (name !== "cmp" || data instanceof Uint8Array) return false
    const value = data.data?.value
    return value?.length === 2 && value[0] === port >> 8 && value[1] === (port & 0xff)
  })
}
