import { ifnameValue } from "../../pkg/nftables/mod.ts"
import { networkOf, parseCidr } from "../../pkg/types/mod.ts"
import { chainsAt, comparesWith, type FilterView, isUnconditional, verdictOf } from "../node/mod.ts"
import { bridgesOf, type Check, containerLinks, type Finding, type Patient } from "./finding.ts"

/** Tables of this suite, and of the reference suite. */
const OURS = /^cni_/

/** Rules of others that drop what containers send or get. */
export const checkDrops: Check = (patient) => {
  const { filter } = patient
  if (!filter || patient.attachments.length === 0) return []
  const values = valuesOf(patient)
  // The plugin firewall lets all its containers through again at each of its ADDs.
  const hasFirewall = patient.members.some(({ type }) => type === "firewall")
  const again = hasFirewall
    ? '; the next ADD by the plugin "firewall" does it too, and podman network reload --all'
    : ""
  const bases = filter.bases.filter(
    ({ hook, type, table }) =>
      hook === "forward" && type === "filter" && table.family !== "bridge" && !OURS.test(table.name),
  )
  return bases.flatMap((base): Finding[] => {
    const chains = chainsAt(filter, base)
    const rules = rulesOf(filter, base.table, chains)
    const place = `table ${base.table.family} ${base.table.name}, chain ${base.name}`
    const mentions = (rule: (typeof rules)[number]) => comparesWith(rule, values)
    const dropped = rules.find(
      (rule) =>
        verdictOf(rule) === "drop" && (mentions(rule) || (rule.chain.name === base.name && isUnconditional(rule))),
    )
    const accepted = rules.some((rule) => verdictOf(rule) === "accept" && (mentions(rule) || isUnconditional(rule)))
    const maker = makerOf(filter, base.table.name)
    const who = maker === undefined ? "" : ` (made by ${maker})`
    if (dropped && !(isUnconditional(dropped) && accepted)) {
      const what = `a rule in ${place}${who} drops packets of containers: chain ${dropped.chain.name}, handle ${dropped.handle}`
      return [finding("forward-drop-rule", what, remedyFor(maker))]
    }
    if (base.policy === "accept" || accepted) return []
    return [
      finding(
        "forward-drop",
        `${place}${who} drops what no rule of it accepts, and none accepts containers`,
        `${remedyFor(maker)}${again}`,
      ),
    ]
  })
}

function remedyFor(maker: string | undefined): string {
  return remedies[maker ?? ""] ?? "accept what comes from and goes to the containers' interfaces there"
}

function finding(rule: string, what: string, remedy: string): Finding {
  return {
    rule,
    severity: "error",
    what,
    why: "a drop is final, also where other tables accept: containers reach nothing beyond their bridge, published ports do not answer",
    remedy,
  }
}

const remedies: Readonly<Record<string, string>> = {
  docker:
    "iptables -I DOCKER-USER -i cni0 -j ACCEPT; iptables -I DOCKER-USER -o cni0 -j ACCEPT (the bridge's own name)",
  firewalld:
    "firewall-cmd --permanent --zone=trusted --add-interface=cni0; firewall-cmd --reload (the bridge's own name)",
  ufw: "ufw route allow in on cni0; ufw route allow out on cni0 (the bridge's own name)",
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

/** Tables of ours that are there, and that no packet comes through. */
export const checkDormant: Check = ({ filter }) =>
  (filter?.dormant ?? [])
    .filter(({ name }) => OURS.test(name))
    .map(({ family, name }) => ({
      rule: "table-dormant",
      severity: "error",
      what: `table ${family} ${name} is dormant: no packet comes through its chains`,
      why: "what its rules do for containers does not happen: masquerade, published ports, policies, the check of MACs",
      remedy: `nft add table ${family} ${name}; the next ADD of a plugin that uses the table wakes it, too`,
    }))

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
          remedy: `remove the rule (nft delete rule ${base.table.family} ${base.table.name} ${rule.chain.name} handle ${rule.handle}), or choose another port`,
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
