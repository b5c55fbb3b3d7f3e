/** Sabotage after sabotage while a listener runs, in an order by chance; the long form goes on for hundreds of rounds. */
import { expect, test } from "bun:test"
import { Chance, extent, patient, seed, tellFigure, waitFor } from "../lab/mod.ts"
import { RunningListener } from "./listener-lab.ts"
import { ReconcileLab } from "./reconcile-lab.ts"
import { type Sabotage, sabotages } from "./sabotages.ts"

/** How many sabotages meet each network. */
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
      // A listener for two: what is removed three times in a minute is left. Every other one is killed.
      await using listener = await RunningListener.start(lab.node)
      for (let at = 0; at < 2; at++) {
        const { what, act } = chance.of<Sabotage>(kinds)
        const { outage } = await listener.record()
        await act(lab, pods)
        await listener.until(
          (record) => record.outage.count > outage.count,
          `what is lost by "${what}" to be made again`,
        )
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
  patient(extent(600_000, 7_200_000)),
)
