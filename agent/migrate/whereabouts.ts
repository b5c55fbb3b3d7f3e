import { formatAddress, parseAddress } from "../../ipam/host-local/main.ts"
import { AF_INET, isJsonObject, type JsonObject } from "../../pkg/types/mod.ts"
import { formatPrefix, type Prefix } from "../blocks.ts"
import type { Pool, PoolPrefix } from "../records.ts"
import { covers, prefixesOf, prefixOf, type Span, spansOf, without } from "../spans.ts"
import { ipamParts, memberOf, textOf, withIpam, withoutKeys } from "./configuration.ts"
import type { Plan, Saved, Step } from "./steps.ts"

/** A network with the IPAM plugin whereabouts, and the pool that is to take its place. */
export interface WhereaboutsScene {
  readonly network: string
  readonly file: string
  readonly text: string
  readonly saved?: Saved | undefined
  readonly poolName: string
  readonly poolDir?: string | undefined
  /** The pool as it is registered. */
  readonly pool: Pool | undefined
  /** The prefix length of blocks, where the pool is made; default 28, and 124 for IPv6. */
  readonly blockLength?: number | undefined
  readonly gateway?: string | undefined
  /** The addresses that whereabouts has handed out in the whole cluster; `undefined` until every node takes addresses of the pool. */
  readonly held: readonly HeldAddress[] | undefined
}

/** An address that an IPPool object of whereabouts names. */
export interface HeldAddress {
  readonly address: string
  /** "namespace/name" of the pod, "" where it is not noted. */
  readonly pod: string
}

/** The keys of whereabouts whose meaning the pool has now, and those that it needs no longer. */
const replacedKeys = [
  ...["range", "range_start", "range_end", "exclude", "ipRanges", "gateway", "network_name", "node_slice_size"],
  ...["datastore", "kubernetes", "log_file", "log_level", "configuration_path", "enable_overlapping_ranges"],
  ...["etcd_host", "etcd_username", "etcd_password", "etcd_key_file", "etcd_cert_file", "etcd_ca_cert_file"],
  ...["sleep_for_race", "leader_lease_duration", "leader_renew_deadline", "leader_retry_period", "overlapping_ranges"],
  ...["reconciler_cron_expression", "type"],
]

/**
 * Plans the way from whereabouts to a pool, in two parts. First each node has the new configuration, and its ADDs wait (code 11) until
 * there is a pool: so no node takes an address by whereabouts while others take it from the pool. Then, once, the pool is
 * made; it keeps back all that whereabouts has handed out. Each further run frees what whereabouts has freed since.
 */
export function planWhereabouts(scene: WhereaboutsScene): Plan {
  const { network, file, text, saved, pool, poolName, held } = scene
  const before = saved?.text ?? text
  const [part, ...more] = ipamParts(before, "whereabouts")
  if (!part || more.length > 0)
    return refused(`network "${network}" has whereabouts ${part ? more.length + 1 : 0} times: one is expected`)
  const after = replacement(before, scene)
  const kept = held?.filter(({ address }) => rangesOf(part.ipam).some(({ prefix }) => isIn(address, prefix)))
  const made = kept && poolOf(scene, part.ipam, kept)
  const problems = typeof made === "string" ? [made] : []
  if (text !== before && text !== after)
    problems.push(
      `"${file}" was changed since its migration began: put it back as it was, or as this command has written it`,
    )
  if (pool && pool.network !== network)
    problems.push(`pool "${poolName}" is for network "${pool.network}", and this is "${network}"`)
  const addresses = kept?.map(({ address }) => address)
  const isNoted = addresses === undefined || addresses.join() === saved?.imported?.join()
  const entry: Saved = {
    network,
    file,
    text: before,
    ...(addresses ? { imported: addresses } : saved?.imported && { imported: saved.imported }),
  }
  const reserve = pool && kept && changedReserve(pool, saved?.imported ?? [], addresses ?? [])
  const steps: Step[] = [
    ...(saved ? [] : [{ do: "save" as const, saved: { network, file, text } }]),
    ...(text === after
      ? []
      : [
          {
            do: "write" as const,
            file,
            text: after,
            why: `host-local takes addresses of pool "${poolName}" in place of whereabouts`,
          },
        ]),
    ...(pool || !kept || typeof made !== "object" ? [] : [{ do: "register" as const, pool: made }]),
    ...(pool && reserve
      ? [
          {
            do: "reserve" as const,
            pool: poolName,
            before: pool.prefixes,
            prefixes: reserve,
            why: "what whereabouts has freed is free",
          },
        ]
      : []),
    ...(kept && !isNoted ? [{ do: "save" as const, saved: entry }] : []),
  ]
  return { steps, problems, notes: notesOf(scene, kept, after) }
}

/** Plans the way back: the configuration as it was. Addresses of the pool that containers have must not be handed out by whereabouts. */
export function planWhereaboutsBack(scene: WhereaboutsScene & { readonly owned: readonly string[] }): Plan {
  const { network, file, text, saved, poolName, pool, owned } = scene
  if (!saved)
    return refused(`nothing is kept of network "${network}": its migration has not begun here, or was taken back`)
  const problems =
    pool && owned.length > 0
      ? [
          `nodes own blocks of pool "${poolName}" (${owned.join(", ")}), and whereabouts would hand out their addresses again: remove the containers, then "cni-agent ipam pool rm ${poolName}"`,
        ]
      : []
  const steps: Step[] = [
    ...(text === saved.text
      ? []
      : [{ do: "write" as const, file, text: saved.text, why: "whereabouts hands out addresses as before" }]),
    { do: "forget", network },
  ]
  return { steps, problems, notes: [] }
}

/** The addresses that IPPool objects name: what `kubectl get ippools -A -o json` prints. Throws for other JSON. */
export function heldAddresses(json: unknown, networkName?: string): HeldAddress[] {
  if (!isJsonObject(json)) throw new Error("expected a JSON object")
  const items = Array.isArray(json.items) ? json.items : [json]
  return items.flatMap((item) => {
    const metadata = isJsonObject(item) && isJsonObject(item.metadata) ? item.metadata : {}
    const spec = isJsonObject(item) && isJsonObject(item.spec) ? item.spec : undefined
    const base = parseAddress(textOf(spec ?? {}, "range")?.split("/")[0] ?? "")
    if (!spec || !base)
      throw new Error(`"${String(metadata.name ?? "")}" is not an IPPool of whereabouts: it has no "spec.range"`)
    if (networkName !== undefined && !String(metadata.name).startsWith(`${networkName}-`)) return []
    const allocations = isJsonObject(spec.allocations) ? spec.allocations : {}
    return Object.entries(allocations).map(([offset, entry]) => ({
      address: formatAddress({ family: base.family, value: base.value + BigInt(offset) }),
      pod: (isJsonObject(entry) && textOf(entry, "podref")) || "",
    }))
  })
}

/** `network_name` of a configuration: the IPPools of other networks count for nothing. */
export function networkNameOf(text: string): string | undefined {
  return ipamParts(text, "whereabouts").flatMap(({ ipam }) => textOf(ipam, "network_name") ?? [])[0]
}

function replacement(text: string, { poolName, poolDir }: WhereaboutsScene): string {
  return withIpam(text, "whereabouts", (ipam) => ({
    type: "host-local",
    pool: poolName,
    ...(poolDir === undefined ? {} : { poolDir }),
    ...withoutKeys(ipam, replacedKeys),
  }))
}

interface WhereaboutsRange {
  readonly prefix: Prefix
  /** The addresses that are not handed out: before the start, after the end, excluded. */
  readonly away: readonly Span[]
}

/** `range` with `range_start`, `range_end` and `exclude`, and each of `ipRanges`. A range may be "FIRST-LAST/LENGTH". */
function rangesOf(ipam: JsonObject): WhereaboutsRange[] {
  const more = memberOf(ipam, "ipRanges")
  const all = [ipam, ...(Array.isArray(more) ? more.filter(isJsonObject) : [])]
  return all.flatMap((each) => {
    const [left = "", right] = (textOf(each, "range") ?? "").split("-")
    const [last = "", length = ""] = (right ?? left).split("/")
    const base = parseAddress(last)
    if (!base || !/^\d{1,3}$/.test(length) || Number(length) > (base.family === AF_INET ? 32 : 128)) return []
    const prefix = prefixOf(base, Number(length))
    const start = parseAddress(right === undefined ? (textOf(each, "range_start") ?? "") : left)
    const end = parseAddress(right === undefined ? (textOf(each, "range_end") ?? "") : last)
    const inside = { ...prefix, first: start?.value ?? prefix.first, last: end?.value ?? prefix.last }
    const exclude = memberOf(each, "exclude")
    const excluded = (Array.isArray(exclude) ? exclude : []).flatMap((text) => spansOf(String(text)))
    return [{ prefix, away: [...without([prefix], [inside]), ...excluded] }]
  })
}

/** The pool that takes the place of whereabouts' ranges, or why there can be none. */
function poolOf(scene: WhereaboutsScene, ipam: JsonObject, held: readonly HeldAddress[]): Pool | string {
  const ranges = rangesOf(ipam)
  if (ranges.length === 0) return `network "${scene.network}" has no "range" that can be understood`
  if (new Set(ranges.map(({ prefix }) => prefix.family)).size < ranges.length)
    return `network "${scene.network}" has several ranges of one family: make a pool for each by hand`
  const prefixes: PoolPrefix[] = []
  for (const { prefix, away } of ranges) {
    const isV4 = prefix.family === AF_INET
    const given = [scene.gateway, textOf(ipam, "gateway")].find((text) => text !== undefined && isIn(text, prefix))
    const gateway = given ?? formatAddress({ family: prefix.family, value: prefix.first + 1n })
    const holder = held.find(({ address }) => address === gateway)
    if (holder && given === undefined)
      return `pod "${holder.pod}" has ${gateway}, and a pool for a shared link needs a gateway: name an address by --gateway, in use or not`
    const taken = held.flatMap(({ address }) => (isIn(address, prefix) ? spansOf(address) : []))
    const reserved = prefixesOf([...away, ...taken])
    const blockLength = Math.max(prefix.length, scene.blockLength ?? (isV4 ? 28 : 124))
    prefixes.push({ prefix: formatPrefix(prefix), blockLength, gateway, reserved })
  }
  return { name: scene.poolName, prefixes, routes: [], network: scene.network, quarantineS: 24 * 3600, routing: "none" }
}

/** The pool's prefixes without what was imported and is free again, and with what is held now; `undefined` where nothing changes. */
function changedReserve(pool: Pool, imported: readonly string[], held: readonly string[]): PoolPrefix[] | undefined {
  const gone = imported.filter((address) => !held.includes(address)).flatMap(spansOf)
  const prefixes = pool.prefixes.map((each) => {
    const here = held.filter((address) =>
      spansOf(each.prefix).some((span) => spansOf(address).some((one) => covers(span, one))),
    )
    const spans = [...without(each.reserved.flatMap(spansOf), gone), ...here.flatMap(spansOf)]
    return { ...each, reserved: prefixesOf(spans) }
  })
  const isSame = prefixes.every(
    ({ reserved }, at) => reserved.join() === prefixesOf((pool.prefixes[at]?.reserved ?? []).flatMap(spansOf)).join(),
  )
  return isSame ? undefined : prefixes
}

function notesOf(
  { network, held, poolName }: WhereaboutsScene,
  kept: readonly HeldAddress[] | undefined,
  after: string,
): string[] {
  if (!held)
    return [
      `ADDs of network "${network}" wait (code 11) until there is pool "${poolName}": do this on every node`,
      `in a NetworkAttachmentDefinition the same is changed once: "ipam": ${JSON.stringify(ipamParts(after, "host-local")[0]?.ipam)}`,
      `then, once: kubectl get ippools.whereabouts.cni.cncf.io -A -o json | cni-agent migrate whereabouts ${network} --ippools -`,
    ]
  if (kept?.length === 0) return ["whereabouts has no address handed out any more: its objects can be removed"]
  return [
    `${kept?.length ?? 0} addresses of whereabouts are kept back: run this again when pods have ended, until there are none`,
  ]
}

function isIn(address: string, prefix: Prefix): boolean {
  return spansOf(address).some((span) => covers(prefix, span))
}

function refused(problem: string): Plan {
  return { steps: [], problems: [problem], notes: [] }
}
