import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { runFirewalld, sourcesIn, startFirewalld, stopFirewalld } from "../firewall/firewalld-lab.ts"
import { RunningListener } from "./listener-lab.ts"
import { madeFor, ReconcileLab, withoutLocalnetRecord } from "./reconcile-lab.ts"

const [bridge = {}, portmap = {}] = podsNetwork.plugins

for (const ingressPolicy of ["open", "same-bridge", "isolated"]) {
  test(`cni reconcile restores the accept rules of firewall and its policy ${ingressPolicy}`, async () => {
    const firewall = { type: "firewall", ingressPolicy }
    await using lab = await ReconcileLab.create({ ...podsNetwork, plugins: [bridge, portmap, firewall] })
    // docker sets this policy: the host drops packets that no rule accepts.
    await lab.host.exec("iptables", ["-P", "FORWARD", "DROP"])
    const pods = await lab.addPods(2)
    await lab.expectTraffic(pods)
    const before = withoutLocalnetRecord(await lab.ruleSet())
    await lab.host.exec("nft", ["flush", "ruleset"])
    await lab.host.exec("iptables", ["-P", "FORWARD", "DROP"])
    await lab.expectNoTraffic(pods)
    const { restored } = await lab.reconcile("--dry-run")
    for (const pod of pods) expect(restored).toContainEqual(madeFor(pod, "firewall", "firewall rules"))
    expect(await lab.reconcile()).toMatchObject({ restored })
    await lab.expectTraffic(pods)
    expect(withoutLocalnetRecord(await lab.ruleSet())).toEqual(before)
    await lab.expectNothingToDo()
  })
}

test("cni reconcile restores the sources that firewalld has lost, after its reload and after its restart", async () => {
  await using lab = await ReconcileLab.create({ ...podsNetwork, plugins: [bridge, { type: "firewall" }] })
  await startFirewalld(lab.host)
  const pods = await lab.addPods(2)
  const sources = await sourcesIn(lab.host)
  expect(sources).toHaveLength(2)
  const restored = pods.map((pod, at) =>
    madeFor(pod, "firewall", `source ${sources[at]} of firewalld's zone "trusted"`),
  )
  const losses = [
    () => lab.host.exec("firewall-cmd", ["--reload"]),
    async () => {
      await stopFirewalld(lab.host)
      await runFirewalld(lab.host)
    },
  ]
  for (const lose of losses) {
    await lose()
    expect(await sourcesIn(lab.host)).toEqual([])
    expect((await lab.reconcile("--dry-run")).restored).toEqual(restored)
    expect((await lab.reconcile()).restored).toEqual(restored)
    expect(await sourcesIn(lab.host)).toEqual(sources)
    for (const { pod } of pods) await pod.exec("ping", ["-c", "1", "-w", "10", "203.0.113.9"])
    expect(await lab.reconcile()).toMatchObject({ restored: [] })
  }
  await lab.removePods(pods)
  expect(await sourcesIn(lab.host)).toEqual([])
})

test("cni doctor says that firewalld runs without a listener of cni reconcile, until one runs", async () => {
  await using lab = await ReconcileLab.create({ ...podsNetwork, plugins: [bridge, portmap, { type: "firewall" }] })
  const findings = async () =>
    (await lab.node.doctor()).findings
      .filter(({ rule }) => rule !== "host-no-default-route")
      .map(({ rule, pasteable, remedy }) => ({ rule, pasteable, remedy }))
  const noListener = {
    rule: "no-listener",
    pasteable: true,
    remedy: "systemctl enable --now cni-reconcile.service",
  }
  await startFirewalld(lab.host)
  expect(await findings()).toEqual([]) // also because no container could lose rules
  const pods = await lab.addPods(1)
  expect(await findings()).toEqual([noListener])
  {
    await using _ = await RunningListener.start(lab.node) // the program of cni-reconcile.service
    expect(await findings()).toEqual([])
  }
  expect(await findings()).toEqual([noListener])
  await lab.removePods(pods)
})
