import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { chooseIptables } from "../lab/mod.ts"
import { madeFor, ReconcileLab, RuleMonitor } from "./reconcile-lab.ts"

const [bridge = {}, portmap = {}] = podsNetwork.plugins
const network = {
  ...podsNetwork,
  plugins: [
    { ...bridge, ipMasqBackend: "iptables" },
    { ...portmap, backend: "iptables" },
  ],
}

for (const kind of ["nf_tables", "legacy"] as const) {
  test(`cni reconcile restores the rules of iptables (${kind}) after iptables -t nat -F`, async () => {
    await using lab = await ReconcileLab.create(network)
    await chooseIptables(lab.host, kind)
    const pods = await lab.addPods(3)
    await lab.expectTraffic(pods)
    const rules = async () => {
      const { stdout } = await lab.host.exec("iptables-save", ["-t", "nat"])
      return stdout
        .split("\n")
        .filter((line) => line.startsWith("-A"))
        .sort()
    }
    const before = await rules()
    await lab.host.exec("iptables", ["-t", "nat", "-F"])
    await lab.expectNoTraffic(pods)
    const restored = [
      ...pods.map((pod) => madeFor(pod, "bridge", "masquerade")),
      ...pods.map((pod) => madeFor(pod, "portmap", "published ports")),
    ]
    expect(await lab.reconcile("--dry-run")).toMatchObject({ restored })
    {
      await using changes = await RuleMonitor.start(lab.host)
      expect(await lab.reconcile()).toMatchObject({ restored })
      // One transaction for each plugin and family, for any number of containers. Changes of the older tables
      // cannot be monitored.
      expect((await changes.transactionsBy("iptables-restor")).length).toBe(kind === "legacy" ? 0 : 2)
    }
    await lab.expectTraffic(pods)
    expect(await rules()).toEqual(before)
    expect(await lab.reconcile()).toMatchObject({ restored: [] })
    expect(await rules()).toEqual(before)
    await lab.removePods(pods)
    expect((await rules()).filter((line) => pods.some(({ pod }) => line.includes(pod.name)))).toEqual([])
    expect((await rules()).filter((line) => line.includes("CNI-DN-"))).toEqual([])
  })
}
