import { expect, test } from "bun:test"
import { madeFor, ReconcileLab, withoutLocalnetRecord } from "./reconcile-lab.ts"

test("cni reconcile restores masquerade and published ports after nft flush ruleset, and then has nothing to do", async () => {
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

test("cni reconcile restores the guard of route_localnet where no container publishes ports, as cni doctor asks for [S157]", async () => {
  await using lab = await ReconcileLab.create()
  await lab.addPods(1, [])
  await lab.expectNothingToDo()
  await lab.host.exec("sysctl", ["-qw", "net.ipv4.conf.cni0.route_localnet=1"])
  const [found] = (await lab.node.doctor()).findings
  expect(found).toMatchObject({ rule: "route-localnet-open", severity: "error", pasteable: true })
  const guard = { plugin: "portmap", network: "pods", what: 'guard of route_localnet of "cni0"' }
  expect(await lab.reconcile("--dry-run")).toMatchObject({ restored: [guard] })
  expect(await lab.ruleSet()).not.toContainEqual(expect.stringContaining("cni_hostports"))
  expect(await lab.node.paste(found?.remedy ?? "")).toMatchObject({ stderr: "", exitCode: 0 })
  expect((await lab.host.exec("nft", ["list", "chain", "ip", "cni_hostports", "raw"])).stdout).toContain("drop")
  await lab.expectNothingToDo()
  expect((await lab.node.doctor()).findings.map(({ rule }) => rule)).not.toContain("route-localnet-open")
})
