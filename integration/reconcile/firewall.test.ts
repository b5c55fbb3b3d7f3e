import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { madeFor, ReconcileLab, withoutLocalnetRecord } from "./reconcile-lab.ts"

const [bridge = {}, portmap = {}] = podsNetwork.plugins

for (const ingressPolicy of ["open", "same-bridge", "isolated"]) {
  test(`cni reconcile makes again what firewall lets through, and its policy ${ingressPolicy}`, async () => {
    const firewall = { type: "firewall", ingressPolicy }
    await using lab = await ReconcileLab.create({ ...podsNetwork, plugins: [bridge, portmap, firewall] })
    // As docker leaves it: what nothing lets through is dropped.
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
