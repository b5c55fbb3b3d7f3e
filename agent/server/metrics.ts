import { type Family, printFamilies, type Sample } from "../../pkg/metrics/mod.ts"
import type { PrefixStatus, Status } from "../status.ts"

/** What the process has used. */
export interface Usage {
  readonly residentBytes: number
  readonly cpuS: number
}

/** The metrics of an agent in Prometheus' text format. */
export function formatMetrics(status: Status, usage: Usage, version: string): string {
  const { node, store, routes } = status
  const labels = { version, node: node.name, store: store.name }
  return printFamilies([
    gauge("agent_info", "The version of the agent, the name of its node, and its store.", [{ labels, value: 1 }]),
    ...ofStore(store),
    ...ofPools(status),
    ...(routes ? ofRoutes(routes) : []),
    {
      name: "process_resident_memory_bytes",
      type: "gauge",
      help: "Resident memory of the agent in bytes.",
      samples: one(usage.residentBytes),
    },
    {
      name: "process_cpu_seconds_total",
      type: "counter",
      help: "Processor time of the agent in seconds.",
      samples: one(usage.cpuS),
    },
  ])
}

function ofStore(store: Status["store"]): Family[] {
  const { fault, stopped, lastContactS } = store
  return [
    gauge("store_up", "Whether the store can be used.", one(fault === undefined ? 1 : 0)),
    gauge(
      "store_stopped",
      "Whether the agent neither claims nor releases, because the store cannot be trusted.",
      one(stopped === undefined ? 0 : 1),
    ),
    gauge(
      "store_last_contact_seconds",
      "Seconds since the last request that has succeeded.",
      lastContactS === undefined ? [] : one(lastContactS),
    ),
    counter("store_requests_total", "Requests to the store.", store.requests),
    counter("store_writes_total", "Requests to the store that change a record.", store.writes),
    counter("store_watch_events_total", "Changes of records that the store has told.", store.watchEvents),
  ]
}

function ofPools({ pools, lost }: Status): Family[] {
  const prefixes = pools.flatMap(({ name: pool, prefixes }) =>
    prefixes.map((status) => ({ status, labels: { pool, prefix: status.prefix } })),
  )
  const each = (value: (status: PrefixStatus) => number | string): Sample[] =>
    prefixes.map(({ status, labels }) => ({ labels, value: value(status) }))
  const byState = <S extends string>(
    states: readonly S[],
    sampleOf: (status: PrefixStatus, state: S) => number | string | undefined,
  ) =>
    prefixes.flatMap(({ status, labels }) =>
      states.flatMap((state) => {
        const value = sampleOf(status, state)
        return value === undefined ? [] : [{ labels: { ...labels, state }, value }]
      }),
    )
  const own = byState(["owned", "draining"], ({ blocks }, state) => blocks.filter((one) => one.state === state).length)
  const all = byState(["free", "owned", "quarantined"], ({ cluster }, state) => cluster?.[state])
  const files = pools.map(({ name: pool, fault }) => ({ labels: { pool }, value: fault === undefined ? 1 : 0 }))
  const fixed = pools.map(({ name: pool, fixed }) => ({ labels: { pool }, value: Object.values(fixed).flat().length }))
  const fenced = lost.reduce((sum, { containers }) => sum + containers.length, 0)
  return [
    gauge("pool_file_up", "Whether the file of the pool could be written, and the store has the pool.", files),
    gauge(
      "addresses_used",
      "Addresses of this node's blocks that containers have.",
      each(({ used }) => used),
    ),
    gauge(
      "addresses_free",
      "Addresses of this node's blocks that can be handed out.",
      each(({ free }) => free),
    ),
    gauge("blocks", "Blocks of this node.", own),
    gauge("pool_blocks", "Blocks of the whole pool.", all),
    gauge("fixed_addresses", "Fixed addresses that this node has now.", fixed),
    gauge("lost_blocks", "Blocks that another node owns now, and that this node used before.", one(lost.length)),
    gauge("lost_block_containers", "Containers of this node with an address of a lost block.", one(fenced)),
  ]
}

function ofRoutes({ wanted, faults }: NonNullable<Status["routes"]>): Family[] {
  return [
    gauge("routes_wanted", "Routes to the blocks of other nodes that this node has to have.", one(wanted)),
    gauge("route_faults", "Reasons for which such routes are missing.", one(faults.length)),
  ]
}

const PREFIX = "cni_ipam_"

function gauge(name: string, help: string, samples: readonly Sample[]): Family {
  return { name: `${PREFIX}${name}`, type: "gauge", help, samples }
}

function counter(name: string, help: string, value: number): Family {
  return { name: `${PREFIX}${name}`, type: "counter", help, samples: one(value) }
}

function one(value: number): Sample[] {
  return [{ labels: {}, value }]
}
