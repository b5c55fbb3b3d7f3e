import { expect, test } from "bun:test"
import { madeFor, ReconcileLab, withoutLocalnetRecord } from "./reconcile-lab.ts"

test("cni reconcile makes again masquerade and published ports after nft flush ruleset, and then has nothing to do", async () => {
  await using lab = await ReconcileLab.create()
  const pods = await lab.addPods(3)
  await lab.expectTraffic(pods)
  const before = withoutLocalnetRecord(await lab.ruleSet())
  await lab.host.exec("nft", ["flush", "ruleset"])
  await lab.expectNoTraffic(pods)

  const restored = [
    ...pods.map((pod) => madeFor(pod, "bridge", "masquerade")),
    ...pods.map((pod) => madeFor(pod, "portmap", "published ports")),
  ]
  const rest = { failed: [], skipped: [], foreign: [] }
  expect(await lab.reconcile("--dry-run")).toEqual({ dryRun: true, restored, ...rest })
  expect(await lab.ruleSet()).toEqual([])
  expect(await lab.reconcile()).toEqual({ dryRun: false, restored, ...rest })
  await lab.expectTraffic(pods)
  expect(withoutLocalnetRecord(await lab.ruleSet())).toEqual(before)
  await lab.expectNothingToDo()
  await lab.expectNothingLeft(pods)
})
