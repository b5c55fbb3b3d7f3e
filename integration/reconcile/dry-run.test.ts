/** Tests that the dry run of `cni reconcile` lists exactly the objects that the next run restores. */
import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { chooseIptables } from "../lab/mod.ts"
import { ReconcileLab, some } from "./reconcile-lab.ts"
import { type Sabotage, sabotages } from "./sabotages.ts"

const withFirewall = (keys: object) => ({
  ...podsNetwork,
  plugins: [...podsNetwork.plugins, { type: "firewall", ...keys }],
})
const firewalls: readonly Sabotage[] = ["nftables", "iptables"].map((backend) => ({
  what: `iptables' FORWARD flushed, with firewall by ${backend}`,
  network: withFirewall({ backend }),
  act: ({ host }) => host.exec("sh", ["-c", "iptables -P FORWARD DROP; iptables -F FORWARD"]),
}))

test.each(some([...sabotages, ...firewalls], 8))(
  "$what: the dry run names what the run restores",
  async ({ act, network }) => {
    await using lab = await ReconcileLab.create(network)
    const pods = await lab.addPods(2)
    await act(lab, pods)
    const { restored } = await lab.reconcile("--dry-run")
    expect((await lab.reconcile()).restored).toEqual(restored)
    expect((await lab.reconcile("--dry-run")).restored).toEqual([])
  },
)

test("beside a container of the reference plugins the dry run names no intact object of this suite", async () => {
  await using lab = await ReconcileLab.create({ ...withFirewall({}), cniVersion: "1.0.0" })
  await chooseIptables(lab.host, "nf_tables")
  const { binDir } = lab.node
  lab.node.binDir = "/usr/lib/cni"
  await lab.addPods(1)
  lab.node.binDir = binDir
  await lab.addPods(1)
  expect((await lab.reconcile("--dry-run")).restored).toEqual([])
  expect((await lab.reconcile()).restored).toEqual([])
})
