import { HostNamespace, type Job, type Outcome, type Sample } from "../../integration/lab/mod.ts"
import type { Contender, Scenario, StepSample } from "../measure.ts"
import { contendersOf, type Suite } from "../suites.ts"
import { chainOf } from "./chain.ts"
import { Node } from "./node.ts"

/** The number of containers that start on a new node, and the numbers that start at the same time. */
export const containers = 60
export const atATime = [1, 4, 16] as const

/**
 * Returns the duration of a burst, and the number of failed containers. If some failed, the duration is scaled up to
 * all containers by the rate of the successful ones. Throws if all containers failed.
 */
export function ofSuccesses(whole: Sample, chains: readonly (readonly Outcome[])[]): StepSample {
  const failures = chains.flatMap((chain) => chain.at(-1)?.failure ?? [])
  const succeeded = chains.length - failures.length
  if (succeeded === 0) throw new Error(`All of ${chains.length} containers failed: ${failures[0]}`)
  return { ...whole, ms: (whole.ms * containers) / succeeded, failed: failures.length }
}

/** Starts a contender that attaches and detaches all containers in each round, on a new node, removed at the end. */
async function startBurst(suite: Suite, parallel: number): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const shelter = stack.use(await HostNamespace.create())
  const pods: { index: number; netns: string }[] = []
  for (let index = 0; index < containers; index++) pods.push({ index, netns: (await shelter.addContainer()).path })
  const nodes = stack.use(new AsyncDisposableStack())
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const node = nodes.use(await Node.open(suite, chainOf(1)))
      const named = pods.map((pod) => ({ ...pod, containerId: `bench-${rounds}-${pod.index}` }))
      rounds++
      const run = (chains: Job[][]) => node.station.run(chains, parallel, { mayFail: suite.name !== "ours" })
      const added = await run(named.map((pod) => node.adds(pod)))
      const results = added.outcomes.map((chain) => chain.at(-1))
      const attached = named.flatMap((pod, at) => {
        const result = results[at]
        return result && result.failure === undefined ? [node.dels(pod, result.stdout)] : []
      })
      const deleted = await run(attached)
      return { ADDs: ofSuccesses(added.whole, added.outcomes), DELs: ofSuccesses(deleted.whole, deleted.outcomes) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** Returns the scenarios of a node after a boot or during a deployment: many containers, some at the same time. */
export function bursts(suites: readonly Suite[]): Scenario[] {
  return atATime.map((parallel) => ({
    name: `${containers} containers, ${parallel} at a time,`,
    steps: ["ADDs", "DELs"],
    contenders: contendersOf(suites, (suite) => startBurst(suite, parallel)),
    baseline: "Go",
    ...(parallel === Math.max(...atATime) ? { atLeast: 3, warmUp: 1 } : { atLeast: 1, warmUp: 0 }),
  }))
}
