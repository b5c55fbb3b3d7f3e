/** Deletes random objects while a listener runs. The long form deletes hundreds of objects. */
import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { runFirewalld, startBus } from "../firewall/firewalld-lab.ts"
import { Chance, extent, scaleTimeout, seed, tellFigure, waitFor } from "../lab/mod.ts"
import { RunningListener } from "./listener-lab.ts"
import { type Published, ReconcileLab } from "./reconcile-lab.ts"
import { type Sabotage, sabotages } from "./sabotages.ts"

const ROUNDS = extent(6, 150)

const networks = [...Map.groupBy(sabotages, ({ network }) => network)]

test.each(networks.map(([network, kinds]) => ({ title: kinds[0]?.what ?? "", network, kinds })))(
  'a storm of sabotages like "$title": after each of them traffic is as before, and nothing is missing',
  async ({ network, kinds }) => {
    await using lab = await ReconcileLab.create(network)
    const pods = await lab.addPods(2)
    const chance = new Chance(seed)
    let held = 0
    for (let round = 0; round < ROUNDS; round += 2) {
      // Each listener handles two sabotages, because it doubles the pause between its checks. Every second listener is
      // killed.
      await using listener = await RunningListener.start(lab.node)
      for (let at = 0; at < 2; at++) {
        const { what, act } = chance.of<Sabotage>(kinds)
        const { outage } = await listener.record()
        await act(lab, pods)
        await listener.until((record) => record.outage.count > outage.count, `what is lost by "${what}" to be restored`)
        await waitFor(
          async () => (await lab.reconcile("--dry-run")).restored.length === 0,
          `nothing to be lost by "${what}"`,
        )
        await lab.expectTraffic(pods)
        held++
      }
      if (chance.below(2) === 0) await listener.end("SIGKILL")
      else expect(await listener.end()).toBe(0)
    }
    await tellFigure({ what: `${kinds.length} kinds of sabotage, the listener runs`, tried: ROUNDS, held })
  },
  scaleTimeout(extent(600_000, 7_200_000)),
)

/** The duration of ADDs, DELs and losses: half an hour in `npm run test:faults -- reconcile/storm`. */
const STORM_MS = extent(60_000, 1_800_000)

test(
  "a storm of ADD, DEL, flush, bridge deletion and reloads of firewalld ends with every living container whole, and nothing of others",
  async () => {
    await using lab = await ReconcileLab.create({
      ...podsNetwork,
      plugins: [...podsNetwork.plugins, { type: "firewall" }],
    })
    await startBus(lab.host)
    await runFirewalld(lab.host)
    await using listener = await RunningListener.start(lab.node)
    const chance = new Chance(seed)
    const pods: Published[] = await lab.addPods(4)
    const gone: string[] = []
    const end = Date.now() + STORM_MS
    const during = async (act: () => Promise<unknown>) => {
      let count = 0
      for (; Date.now() < end; count++) await act()
      return count
    }
    /** A counter that is odd while the bridge is being deleted. */
    let deletions = 0
    const deleteBridge = async () => {
      deletions++
      await lab.host.tryExec("ip", ["link", "delete", "cni0"])
      deletions++
    }
    const come = async () => {
      const before = deletions
      try {
        pods.push(...(await lab.addPods(1)))
      } catch (error) {
        // ADD may fail only if the bridge is deleted during the call. A failed ADD must leave nothing.
        if (!(error instanceof Error) || (before === deletions && before % 2 === 0)) throw error
        gone.push(String(error.cause))
      }
    }
    const go = async () => {
      const [pod] = pods.splice(chance.below(pods.length), 1)
      if (!pod) return
      await lab.removePods([pod])
      gone.push(pod.pod.name)
    }
    const lose = [
      // Delete all tables except those of firewalld, which does not restore them.
      () => lab.host.tryExec("sh", ["-c", 'nft list tables | grep cni_ | sed "s/^/delete /" | nft -f -']),
      deleteBridge,
      () => lab.host.exec("firewall-cmd", ["--reload"]),
      () => lab.node.cni(["reconcile"]),
    ]
    const [changed, lost] = await Promise.all([
      during(() => (pods.length < 4 || (pods.length < 9 && chance.below(2) === 0) ? come() : go())),
      during(() => chance.of(lose)()),
    ])
    const isWhole = async () => (await lab.reconcile("--dry-run")).restored.length === 0
    await waitFor(isWhole, "all to be restored", 120_000)
    await lab.expectTraffic(pods)
    const everything = JSON.stringify([await lab.ruleSet(), await lab.host.json("ip", ["-j", "link"])])
    for (const name of gone) expect(everything).not.toContain(name)
    for (const { pod } of pods) expect(everything).toContain(pod.name)
    // The bridge may be deleted between two plugins of a check. The listener reports that, and its next check restores
    // the rest.
    const unexpected = listener.said
      .split("\n")
      .filter((line) => /cannot restore(?!.*\bcni0\b.*(ENOENT|ENODEV))(?!.* of port .*EOPNOTSUPP)/.test(line))
    expect(unexpected).toEqual([])
    await tellFigure({ what: `${changed} ADDs and DELs beside ${lost} losses`, tried: 1, held: 1 })
  },
  scaleTimeout(STORM_MS + 600_000),
)
