import { expect } from "bun:test"
import { sourcesIn, startFirewalld } from "../firewall/firewalld-lab.ts"
import {
  Chance,
  type Change,
  expectUnchanged,
  extent,
  HostNamespace,
  isAllocationTrace,
  isLong,
  type Snapshot,
  scaleTimeout,
  seed,
  takeSnapshot,
  tellFigure,
  testWith,
} from "../lab/mod.ts"
import { Gate } from "./gate.ts"
import { type Ending, nonsense, reload, renamedBridge, type Scene, saboteurs } from "./saboteurs.ts"
import { type Choices, Storm } from "./storm.ts"
import { addDevice, addUplink, bridges, deviceCount, stormNetworks } from "./storm-networks.ts"

const workers = 16
const containers = extent(24, 300)
/** The number of operations between two checks of all addresses. */
const steps = extent(90, 600)
const stormMs = extent(0, 600_000)
/** The number of steps between two sabotages. A temporary change ends after `lastsFor` steps. */
const sabotageEvery = 7
const lastsFor = 12

const chance = new Chance(seed)

function choose(mayKill: boolean): Choices {
  const [slot, network, verb] = [chance.below(containers), chance.below(1000), chance.below(100)]
  const [fate, kills, at, ms] = [chance.below(100), chance.below(100), chance.below(6), chance.below(40)]
  return { slot, network, verb, fate, kill: mayKill && kills < 15 ? { at, ms: ms + 1 } : undefined }
}

/**
 * Runs `count` operations with all workers in random order. If `scene` is given, saboteurs change its host at the same
 * time.
 */
async function run(storm: Storm, count: number, scene?: Scene, sabotages?: Map<string, number>): Promise<void> {
  const endings: { at: number; end: Ending }[] = []
  let begun = 0
  const work = async () => {
    while (begun < count) {
      const at = begun++
      const choices = choose(scene !== undefined)
      const number = chance.below(1 << 30)
      if (scene && at % sabotageEvery === 0) {
        const saboteur = saboteurs[number % saboteurs.length]
        const end = await saboteur?.act(scene, number >> 8)
        if (typeof end === "function") endings.push({ at: at + lastsFor, end: end as Ending })
        sabotages?.set(saboteur?.what ?? "", (sabotages.get(saboteur?.what ?? "") ?? 0) + 1)
      } else await storm.step(choices)
      for (const ending of endings.filter((one) => one.at < begun)) {
        endings.splice(endings.indexOf(ending), 1)
        await ending.end()
      }
    }
  }
  await Promise.all(Array.from({ length: workers }, work))
  for (const { end } of endings) await end()
}

/**
 * Reports whether a difference at the end is allowed: host-local's positions and index, and new devices in place of
 * lost ones. Deleted or reordered rule sets, empty tables of iptables, and files with `nonsense` are allowed, because
 * saboteurs may leave them.
 */
function isExpected({ section, sign, line }: Change, before: Snapshot): boolean {
  if (/^(dev|far)\d+ /.test(line) || line.endsWith(JSON.stringify(nonsense))) return true
  if (!/tables$/.test(section)) return isAllocationTrace({ section, sign, line }) && !/\/new\/./.test(line)
  const isEmpty = /^(table ip6? (nat|filter)|\*\w+|:\w+ ACCEPT|COMMIT)$/.test(line)
  return sign === "-" || isEmpty || before[section]?.includes(line) === true
}

/**
 * Returns what remains in running containers, with the last calls of each: links except `lo`, and rules except the
 * kernel's.
 */
async function leftInside(storm: Storm): Promise<string> {
  const script = `for pod; do
    ip -n "$pod" -o -d link show | grep -E "eth0|moved0|bwp" | sed "s/^/$pod /"
    ip -n "$pod" rule show | grep -vE "lookup (local|main|default)" | sed "s/^/$pod /"
  done`
  const pods = storm.pods.map(({ name }) => name)
  const { stdout } = await storm.host.tryExec("sh", ["-c", script, "sh", ...pods])
  const changes = stdout.split("\n").filter(Boolean)
  const calls = new Set(changes.map((line) => line.split(" ")[0] ?? ""))
  return [...changes, ...[...calls].map((pod) => `${pod}: ${storm.calls.get(pod)?.join("; ")}`)].join("\n")
}

/**
 * Removes everything as when a node is drained: runs DEL of every attachment, deletes the bridges, and runs GC of every
 * network. No call may fail.
 */
async function clear(storm: Storm): Promise<void> {
  expect(await storm.deleteAll(workers)).toEqual([])
  expect(await leftInside(storm)).toBe("")
  const links = await storm.host.json<{ ifname: string }[]>("ip", ["-j", "link"])
  for (const { ifname } of links) {
    const isBridge = ifname.startsWith(renamedBridge) || bridges.some((bridge) => bridge === ifname)
    if (isBridge) await storm.host.exec("ip", ["link", "delete", ifname])
  }
  for (const network of stormNetworks) expect(await storm.collect(network)).toEqual([])
}

testWith(
  ["macvlan", "tap", "ifb", "tbf", "nf_tables_bridge", "iptables"],
  `${containers} containers, ${workers} at a time, killed plugins and saboteurs: no address twice, each failure says why, nothing is left`,
  async () => {
    await using host = await HostNamespace.create()
    await host.exec("mount", ["-o", "remount,size=8m", "/var/lib/cni"])
    await startFirewalld(host)
    await addUplink(host)
    for (let number = 0; number < Math.min(containers, deviceCount); number++) await addDevice(host, number)
    const storm = new Storm(host, containers)
    await storm.addEach()
    await clear(storm)
    const before = await takeSnapshot(host)

    // Without saboteurs no call may fail.
    await run(storm, steps)
    expect(storm.tally.lines()).toEqual([])
    await storm.ledger.compare(host, storm.attached)

    const scene: Scene = { host, ledger: storm.ledger, firewalld: new Gate(), pods: () => storm.ownPods }
    const sabotages = new Map<string, number>()
    const end = performance.now() + stormMs
    do {
      await run(storm, steps, scene, sabotages)
      await storm.ledger.compare(host, storm.attached)
    } while (performance.now() < end)
    if (isLong) console.log([...storm.tally.lines(), ...storm.tally.violations].join("\n"))

    expect(storm.ledger.violations).toEqual([])
    expect(storm.tally.violations).toEqual([])

    // All sabotages have ended. firewalld starts over with its own rules.
    await reload(host)
    await storm.addEach() // adds again the sources that firewalld has lost
    await clear(storm)
    expect(await sourcesIn(host)).toEqual([])
    for (let number = 0; number < Math.min(containers, deviceCount); number++) await addDevice(host, number)
    expectUnchanged(before, await takeSnapshot(host), (change) => isExpected(change, before))
    expect(storm.tally.violations).toEqual([])
    const { calls, failures, killed, longestMs } = storm.tally
    await tellFigure({
      what: `calls of plugins in a storm: ${containers} containers, ${workers} at a time`,
      tried: calls,
      held: calls,
      note:
        `${failures} failed with their cause, ${killed} killed, ${storm.forgotten} attachments left to GC, ` +
        `${[...sabotages.values()].reduce((all, one) => all + one, 0)} sabotages of ${sabotages.size} kinds; ` +
        `${storm.ledger.given} addresses given, none twice, but for ${storm.ledger.robberies} whose reservation was removed; ` +
        `longest call ${(longestMs / 1000).toFixed(1)} s`,
    })
  },
  scaleTimeout(extent(600_000, 7_200_000)),
)
