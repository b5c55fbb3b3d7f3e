import { expect, test } from "bun:test"
import { formatMetrics } from "./metrics.ts"
import { sampleStatus } from "./status.fixture.ts"

const lines = formatMetrics(sampleStatus, { residentBytes: 1000, cpuS: 0.25 }, "1.2.3").split("\n")
const samples = lines.filter((line) => !line.startsWith("#"))

test("every value of the status is a sample, with its labels", () => {
  const pool = 'pool="pods",prefix="10.64.0.0/16"'
  expect(samples.slice(0, -1)).toEqual([
    'cni_ipam_agent_info{version="1.2.3",node="node-1",store="directory \\"/srv\\""} 1',
    "cni_ipam_store_up 1",
    "cni_ipam_store_stopped 0",
    "cni_ipam_store_last_contact_seconds 1.5",
    "cni_ipam_store_requests_total 9",
    "cni_ipam_store_writes_total 4",
    "cni_ipam_store_watch_events_total 7",
    'cni_ipam_pool_file_up{pool="pods"} 1',
    `cni_ipam_addresses_used{${pool}} 4`,
    'cni_ipam_addresses_used{pool="pods",prefix="fd00:64::/48"} 0',
    `cni_ipam_addresses_free{${pool}} 58`,
    'cni_ipam_addresses_free{pool="pods",prefix="fd00:64::/48"} 0',
    `cni_ipam_blocks{${pool},state="owned"} 1`,
    `cni_ipam_blocks{${pool},state="draining"} 1`,
    'cni_ipam_blocks{pool="pods",prefix="fd00:64::/48",state="owned"} 0',
    'cni_ipam_blocks{pool="pods",prefix="fd00:64::/48",state="draining"} 0',
    `cni_ipam_pool_blocks{${pool},state="free"} 1020`,
    `cni_ipam_pool_blocks{${pool},state="owned"} 3`,
    `cni_ipam_pool_blocks{${pool},state="quarantined"} 1`,
    'cni_ipam_pool_blocks{pool="pods",prefix="fd00:64::/48",state="free"} 18446744073709551616',
    'cni_ipam_pool_blocks{pool="pods",prefix="fd00:64::/48",state="owned"} 0',
    'cni_ipam_pool_blocks{pool="pods",prefix="fd00:64::/48",state="quarantined"} 0',
    'cni_ipam_fixed_addresses{pool="pods"} 2',
    "cni_ipam_lost_blocks 1",
    "cni_ipam_lost_block_containers 1",
    "cni_ipam_routes_wanted 12",
    "cni_ipam_route_faults 1",
    "process_resident_memory_bytes 1000",
    "process_cpu_seconds_total 0.25",
  ])
})

test("every metric has its meaning and its type before its samples", () => {
  for (const name of new Set(samples.slice(0, -1).map((line) => line.replace(/[{ ].*/, "")))) {
    const at = lines.findIndex((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    expect(lines[at - 1]).toMatch(new RegExp(`^# TYPE ${name} (gauge|counter)$`))
    expect(lines[at - 2]).toMatch(new RegExp(`^# HELP ${name} [A-Z].*\\.$`))
    expect(lines[at - 1]?.endsWith("counter")).toBe(name.endsWith("_total"))
  }
})

test("a fault of the store or of a file shows, and a store that was never reached has no time", () => {
  const { lastContactS: _, ...store } = sampleStatus.store
  const [pool] = sampleStatus.pools
  const pools = pool ? [{ ...pool, fault: "full disk" }] : []
  const text = formatMetrics(
    { ...sampleStatus, store: { ...store, fault: "x", stopped: "y" }, pools },
    { residentBytes: 0, cpuS: 0 },
    "1",
  )
  for (const line of ["cni_ipam_store_up 0", "cni_ipam_store_stopped 1", 'cni_ipam_pool_file_up{pool="pods"} 0'])
    expect(text).toContain(`\n${line}\n`)
  expect(text).not.toContain("last_contact")
})

test("a pool that only its file tells of has no samples of the cluster", () => {
  const pools = sampleStatus.pools.map((pool) => ({
    ...pool,
    prefixes: pool.prefixes.map(({ cluster: _, ...prefix }) => prefix),
  }))
  const text = formatMetrics({ ...sampleStatus, pools }, { residentBytes: 0, cpuS: 0 }, "1")
  expect(text).toContain('\ncni_ipam_addresses_used{pool="pods",prefix="10.64.0.0/16"} 4\n')
  expect(text).not.toContain("\ncni_ipam_pool_blocks{")
})
