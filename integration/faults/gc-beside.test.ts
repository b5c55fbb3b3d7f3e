import { expect } from "bun:test"
import {
  Chance,
  expectUnchanged,
  extent,
  HostNamespace,
  isAllocationTrace,
  scaleTimeout,
  seed,
  takeSnapshot,
  tellFigure,
  testWith,
} from "../lab/mod.ts"
import { type Living, TwoNetworks } from "./two-networks.ts"

const containers = extent(60, 500)
const workers = extent(8, 16)
/** The number of operations between two checks. */
const steps = extent(150, 500)
const stormMs = extent(0, 600_000)

/** Returns the objects on the host that belong to attachments: rules, link aliases, leases and records, as text. */
async function traces(host: HostNamespace): Promise<string> {
  const script = [
    "nft -j list ruleset",
    "ip -j -d link show",
    "cd /var/lib/cni/networks && grep -rs '' lan-a/10.* lan-b/10.*",
    "grep -rs '' /run/cni",
  ]
  return (await host.exec("sh", ["-c", script.join("; ").concat("; true")])).stdout
}

/** Returns for each of these containers how often its name occurs in the text. */
function countOf(text: string, pods: readonly string[]): Map<string, number> {
  const counts = new Map(pods.map((pod) => [pod, 0]))
  for (const [id] of text.matchAll(/cnit-\d+-[0-9a-f]{8}-pod/g)) {
    const count = counts.get(id)
    if (count !== undefined) counts.set(id, count + 1)
  }
  return counts
}

/** Returns messages about containers that lack their address or do not answer the host. */
async function cutOff(host: HostNamespace, living: readonly Living[]): Promise<string> {
  const script = `while read -r pod address; do
    ip -n "$pod" -o -4 address show dev eth0 | grep -qF " $address/" || echo "$pod has no $address"
    ping -c 1 -w 60 -q "$address" >/dev/null || echo "$pod is not reached by $address"
  done`
  const input = living.map(({ pod, address }) => `${pod.name} ${address}\n`).join("")
  return (await host.exec("sh", ["-c", script], { input })).stdout
}

testWith(
  ["ifb", "tbf", "nf_tables_bridge"],
  `${containers} containers in two networks of one bridge, ${workers} at a time, GC beside them: the living lose nothing, nothing of the dead stays`,
  async () => {
    await using host = await HostNamespace.create()
    const runtime = new TwoNetworks(host, containers, new Chance(seed))
    await runtime.addAll(workers)
    await runtime.deleteAll(workers)
    const before = await takeSnapshot(host)

    await runtime.addAll(workers)
    // The number of objects of an undisturbed container: every container must have as many.
    const calm = countOf(
      await traces(host),
      runtime.living.map(({ pod }) => pod.name),
    )
    const whole = Math.max(...calm.values())
    expect([...new Set(calm.values())]).toEqual([whole])
    expect(whole).toBeGreaterThan(4)

    let isOver = false
    const collecting = runtime.collectUntil(() => isOver)
    let looks = 0
    try {
      const end = performance.now() + stormMs
      do {
        await runtime.storm(workers, steps)
        await runtime.collectedSince() // more GCs run during the check
        const { living } = runtime
        const text = await traces(host)
        const found = countOf(
          text,
          living.map(({ pod }) => pod.name),
        )
        expect([...found].filter(([, count]) => count !== whole)).toEqual([])
        expect([...runtime.forgotten].filter((pod) => text.includes(pod))).toEqual([])
        expect(await cutOff(host, living)).toBe("")
        expect(runtime.failures).toEqual([])
        looks++
      } while (performance.now() < end)
    } finally {
      isOver = true
      await collecting
    }

    await runtime.deleteAll(workers)
    expect(runtime.failures).toEqual([])
    expect(runtime.tally.violations).toEqual([])
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    const { calls, tally, forgotten } = runtime
    await tellFigure({
      what: `GC beside ADD and DEL in two networks of one bridge: ${containers} containers, ${workers} at a time`,
      tried: calls.GC,
      held: calls.GC,
      note:
        `${calls.ADD} times ADD, ${calls.DEL} times DEL, ${forgotten.size} containers that ended without DEL; after each ` +
        `${steps} of these, ${looks} times, all that is there of each container; longest call ${(tally.longestMs / 1000).toFixed(1)} s`,
    })
  },
  scaleTimeout(extent(240_000, 7_200_000)),
)
