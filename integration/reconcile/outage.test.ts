/**
 * Measures the outage after rules are lost while the listener runs: a new flow starts every millisecond, and lost flows
 * are counted. `npm test` checks that everything is restored. `npm run test:faults -- reconcile` has 110 containers and
 * prints the numbers.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { runFirewalld, sourcesIn, startBus, stopFirewalld } from "../firewall/firewalld-lab.ts"
import { EchoPeer, extent, outside, scaleTimeout, tellFigure, uplink, waitFor } from "../lab/mod.ts"
import { FlowMeter, type Flows, type ListenerRecord, RunningListener } from "./listener-lab.ts"
import { type Published, ReconcileLab, withoutLocalnetRecord } from "./reconcile-lab.ts"

/** The number of pods besides the measured pod. */
const OTHERS = extent(2, 109)
const ROUNDS = extent(1, 10)

let meter: FlowMeter
beforeAll(async () => {
  meter = await FlowMeter.build()
})
afterAll(() => meter[Symbol.asyncDispose]())

async function addPods(lab: ReconcileLab): Promise<Published> {
  const [published] = (await lab.addPods(1)) as [Published]
  for (let at = 0; at < OTHERS; at++) await lab.node.addPod(`other-${at}`, lab.network)
  return published
}

async function tell(what: string, flows: readonly Flows[]): Promise<void> {
  const lost = flows.map(({ lost, sent, longestMs }) => `${lost} of ${sent}, ${longestMs} ms`)
  const held = flows.filter(({ isBack }) => isBack).length
  await tellFigure({ what: `${what}, ${OTHERS + 1} containers`, tried: flows.length, held, note: lost.join("; ") })
}

test(
  "nft flush ruleset: flows out and in by a published port are answered again",
  async () => {
    await using lab = await ReconcileLab.create()
    const first = await addPods(lab)
    const before = withoutLocalnetRecord(await lab.ruleSet())
    const out = { transport: "udp", address: outside.ip, port: 9000 } as const
    const into = { transport: "tcp", address: uplink.ip, port: first.hostPort } as const
    for (const [what, from, question] of [
      ["out", first.pod, out],
      ["in", lab.outside, into],
    ] as const) {
      const seen: Flows[] = []
      for (let round = 0; round < ROUNDS; round++) {
        // A new listener for each round, because a listener doubles the pause between its checks.
        await using listener = await RunningListener.start(lab.node)
        const { outage } = await listener.record()
        const flows = await meter.during(from, question, async () => {
          await lab.host.exec("nft", ["flush", "ruleset"])
          await listener.until((record) => record.outage.count > outage.count, "the tables to be restored")
        })
        expect(flows).toMatchObject({ isBack: true })
        seen.push(flows)
        expect(await listener.end()).toBe(0)
      }
      await tell(`nft flush ruleset, ${what}`, seen)
    }
    expect(withoutLocalnetRecord(await lab.ruleSet())).toEqual(before)
    expect((await lab.reconcile("--dry-run")).restored).toEqual([])
  },
  scaleTimeout(extent(300_000, 1_800_000)),
)

const zoned = { ...podsNetwork, plugins: [...podsNetwork.plugins, { type: "firewall", backend: "firewalld" }] }

test("a firewalld that leaves iptables alone is heard of by D-Bus: when it has reloaded, and when it was started again", async () => {
  await using lab = await ReconcileLab.create(zoned)
  await startBus(lab.host)
  await lab.host.exec("sh", ["-c", "echo FlushAllOnReload=no > /etc/firewalld/firewalld.conf"])
  await runFirewalld(lab.host)
  await lab.addPods(1)
  const sources = await sourcesIn(lab.host)
  await using listener = await RunningListener.start(lab.node)
  const heard = async (times: number) => {
    const ofFirewalld = ({ counts }: ListenerRecord) => counts.filter(({ trigger }) => trigger === "firewalld")
    const isHeard = (record: ListenerRecord) => ofFirewalld(record).reduce((sum, { count }) => sum + count, 0) >= times
    await listener.until(isHeard, "firewalld to be heard of")
    await waitFor(async () => (await sourcesIn(lab.host)).join() === sources.join(), "the sources to be there again")
  }
  await lab.host.exec("firewall-cmd", ["--reload"])
  await heard(1)
  await stopFirewalld(lab.host)
  await runFirewalld(lab.host)
  await heard(2)
})

test("signals of others in firewalld's name are no reload: they start no check", async () => {
  await using lab = await ReconcileLab.create(zoned)
  await startBus(lab.host)
  await runFirewalld(lab.host)
  await lab.addPods(1)
  await using listener = await RunningListener.start(lab.node)
  const forge = async (...to: string[]) => {
    const signal = ["--type=signal", ...to, "/org/fedoraproject/FirewallD1", "org.fedoraproject.FirewallD1.Reloaded"]
    await lab.host.exec("dbus-send", ["--system", ...signal])
  }
  await forge()
  for (let number = 0; number < 30; number++) await forge(`--dest=:1.${number}`)
  await lab.host.exec("nft", ["delete", "table", "ip", "cni_masquerade"])
  const { counts } = await listener.until(
    (record) => record.counts.some(({ trigger }) => trigger === "again"), // otherwise one check could handle both events
    "what was heard later to be answered",
  )
  expect(counts.filter(({ trigger }) => trigger === "firewalld")).toEqual([])
  await lab.host.exec("firewall-cmd", ["--reload"])
  await listener.until(
    (record) => record.counts.some(({ trigger }) => trigger === "firewalld"),
    "the real signal to be answered",
  )
})

test("a check that finds no loss does not replace the second one after a restoration", async () => {
  await using lab = await ReconcileLab.create()
  await lab.addPods(1)
  await using listener = await RunningListener.start(lab.node)
  const checked = (trigger: string, result: string) => (record: ListenerRecord) =>
    record.counts.some((count) => count.trigger === trigger && count.result === result)
  await lab.host.exec("nft", ["delete", "table", "ip", "cni_masquerade"])
  await listener.until(checked("rules", "restored"), "the table to be restored")
  const replace = "{ echo delete table ip cni_masquerade; nft list table ip cni_masquerade; } | nft -f -"
  await lab.host.exec("sh", ["-c", replace]) // one transaction, so no rule is missing in between
  await listener.until(checked("rules", "complete"), "a check without a loss")
  await listener.until(checked("again", "complete"), "the second check")
})

test("firewalld is looked at as soon as it makes its table: it answers that first when it has loaded its rules", async () => {
  await using lab = await ReconcileLab.create(zoned)
  await startBus(lab.host)
  await runFirewalld(lab.host)
  await lab.addPods(1)
  await using listener = await RunningListener.start(lab.node)
  await lab.host.exec("nft", ["delete table inet firewalld; add table inet firewalld"])
  await listener.until(
    ({ counts }) => counts.some(({ trigger }) => trigger === "firewalld"),
    "firewalld to be looked at without a word of it",
  )
})

test(
  "firewall-cmd --reload: the sources of pods are in their zone again, and a port that firewalld itself opens again is the measure",
  async () => {
    await using lab = await ReconcileLab.create(zoned)
    await startBus(lab.host)
    await runFirewalld(lab.host)
    await lab.host.exec("firewall-cmd", ["--permanent", "--add-port=7000/tcp"])
    await lab.host.exec("firewall-cmd", ["--reload"])
    await using _server = await EchoPeer.start(lab.host, { port: 7000 })
    const first = await addPods(lab)
    const sources = await sourcesIn(lab.host)
    expect(sources).toHaveLength(OTHERS + 1)
    const [own, pods]: [Flows[], Flows[]] = [[], []]
    for (let round = 0; round < ROUNDS; round++) {
      await using listener = await RunningListener.start(lab.node)
      const { outage } = await listener.record()
      let reloaded: Promise<unknown> | undefined
      const reload = async () => {
        reloaded ??= lab.host.exec("firewall-cmd", ["--reload"])
        await reloaded
        await listener.until((record) => record.outage.count > outage.count, "the sources to be there again")
      }
      const [ofHost, ofPod] = await Promise.all([
        meter.during(lab.outside, { transport: "tcp", address: uplink.ip, port: 7000 }, reload),
        meter.during(first.pod, { transport: "udp", address: outside.ip, port: 9000 }, reload),
      ])
      expect({ ofHost, ofPod }).toMatchObject({ ofHost: { isBack: true }, ofPod: { isBack: true } })
      own.push(ofHost)
      pods.push(ofPod)
      expect(await sourcesIn(lab.host)).toEqual(sources)
      expect(await listener.end()).toBe(0)
    }
    await tell("firewall-cmd --reload, firewalld's own port", own)
    await tell("firewall-cmd --reload, out of a pod", pods)
  },
  scaleTimeout(extent(300_000, 1_800_000)),
)
