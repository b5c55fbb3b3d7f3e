import { monotonicMs } from "../../pkg/engine/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { FAMILIES } from "../../pkg/types/mod.ts"
import { addressOf, type Container } from "./containers.ts"
import { connectOutsider } from "./outsider.ts"
import { familyName, type Outcome, type Plan, placeText, probes } from "./probes.ts"
import { readHostSide, type Scene, setScene, type Wishes, whySilent } from "./scene.ts"

export interface Finding extends Outcome {
  readonly probe: string
  readonly family: "ipv4" | "ipv6"
  readonly to?: string
  readonly ms?: number
  /** The place where packets stop, according to `cni trace`. */
  readonly stops?: string
}

/**
 * Runs every probe between two containers in each family of their addresses: first all without long packets at once,
 * then the others. If probes failed, calls `stopsOf` while the containers still exist.
 */
export async function runProbes(
  pair: readonly [Container, Container],
  wishes: Wishes,
  stopsOf: () => (plan: Plan) => string | undefined,
): Promise<Finding[]> {
  using stack = new DisposableStack()
  const host = stack.use(Netns.own())
  const sides = new Map(FAMILIES.map((family) => [family, readHostSide(family, pair[0])]))
  const named = FAMILIES.filter((family) => addressOf(pair[1], family) !== undefined)
  const outsider = pair[1].published && stack.use(await connectOutsider(named, wishes.patience))
  const scenes = FAMILIES.flatMap((family): Scene[] => {
    const side = sides.get(family) ?? { gateway: undefined, address: undefined }
    const scene = setScene(family, wishes, pair, { host, outsider, side })
    return scene ? [stack.use(scene)] : []
  })
  const silent = whySilent(pair[0]) ?? whySilent(pair[1])
  const planned = scenes.flatMap((scene) =>
    probes.map((probe) => ({ scene, probe, plan: silent ?? probe.plan(scene) })),
  )
  const found = new Map<(typeof planned)[number], Outcome & { ms?: number }>()
  for (const stage of [1, 2]) {
    const now = planned.filter(({ probe }) => probe.stage === stage)
    await Promise.all(now.map(async (one) => found.set(one, await attempt(one.plan))))
  }
  const failed = planned.some((one) => found.get(one)?.outcome === "failed")
  const tell = failed ? stopsOf() : () => undefined
  return planned.map((one) => {
    const { scene, probe, plan } = one
    const outcome = found.get(one) ?? { outcome: "skipped" as const }
    const isPlan = typeof plan !== "string"
    const stops = isPlan && outcome.outcome === "failed" ? tell(plan) : undefined
    return {
      probe: probe.name,
      family: familyName(scene),
      ...(isPlan ? { to: placeText(plan) } : {}),
      ...outcome,
      ...(stops === undefined ? {} : { stops }),
    }
  })
}

async function attempt(plan: Plan | string): Promise<Outcome & { ms?: number }> {
  if (typeof plan === "string") return { outcome: "skipped", reason: plan }
  const startMs = monotonicMs()
  const outcome = await plan.run()
  return { ...outcome, ms: Math.round(10 * (monotonicMs() - startMs)) / 10 }
}
