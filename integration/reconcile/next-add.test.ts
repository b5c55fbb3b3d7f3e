import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { ReconcileLab } from "./reconcile-lab.ts"

test("an ADD after nft flush ruleset makes nothing for other containers, and names cni reconcile", async () => {
  await using lab = await ReconcileLab.create()
  const add = async () => {
    const { path, name } = await lab.host.addContainer()
    const CAP_ARGS = JSON.stringify({ portMappings: [{ hostPort: 9001, containerPort: 80, protocol: "tcp" }] })
    const { exitCode, stderr } = await lab.node.cni(["add", "pods", path, "--container-id", name], { CAP_ARGS })
    expect(exitCode).toBe(0)
    await lab.node.cni(["del", "pods", path, "--container-id", name])
    return stderr
  }
  expect(await add()).toBe("")
  const pods = await lab.addPods(2)
  expect(await add()).toBe("")
  await lab.host.exec("nft", ["flush", "ruleset"])
  const lines = (await add()).trim().split("\n")
  expect(lines).toEqual([
    expect.stringMatching(/^bridge: .* no masquerade although .*"cni reconcile"$/),
    expect.stringMatching(/^portmap: .* no port mappings although .*"cni reconcile"$/),
  ])
  await lab.expectNoTraffic(pods)
  expect((await lab.ruleSet()).join()).not.toContain("web-")
  expect(await readdir(lab.host.file("/run/cni")).catch(() => [])).not.toContain("rules")
  await lab.reconcile()
  await lab.expectTraffic(pods)
})
