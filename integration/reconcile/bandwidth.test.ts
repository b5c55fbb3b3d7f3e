import { expect } from "bun:test"
import { expectRate } from "../bandwidth/measure.ts"
import { podsNetwork } from "../cni/node-lab.ts"
import { testWith } from "../lab/mod.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

const rate = 4_000_000
const limits = { type: "bandwidth", ingressRate: "4Mbit", egressRate: "4Mbit" }
const network = { ...podsNetwork, plugins: [...podsNetwork.plugins, limits] }

testWith(
  ["ifb", "tbf"],
  "cni reconcile restores the limits of bandwidth: qdiscs, filters, devices; both directions have the rate again",
  async () => {
    await using lab = await ReconcileLab.create(network)
    const pods = await lab.addPods(2)
    const [first] = pods as [Published]
    const { host } = lab
    const links = await host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
    const own = links.filter(({ ifalias }) => ifalias?.includes(first.pod.name)).map(({ ifname }) => ifname)
    const [end = "", ifb = ""] = own.sort((a, b) => (a.startsWith("bwp") ? 1 : 0) - (b.startsWith("bwp") ? 1 : 0))
    const shown = async () => {
      const { stdout } = await host.exec("tc", ["qdisc", "show"])
      return stdout
        .split("\n")
        .filter((line) => /\b(tbf|ingress)\b/.test(line))
        .map((line) => line.trim())
        .sort()
    }
    const before = await shown()
    expect(before).toHaveLength(6)
    const made = madeFor(first, "bandwidth", `limits of "${end}"`)
    for (const command of [
      `tc qdisc del dev ${end} root`,
      `tc qdisc del dev ${end} ingress`,
      `tc filter del dev ${end} ingress`,
      `tc qdisc del dev ${ifb} root`,
      `ip link set ${ifb} down`,
      `ip link delete ${ifb}`,
      `tc qdisc replace dev ${end} root handle 1: tbf rate 9mbit burst 32k latency 25ms`,
    ]) {
      await host.exec("sh", ["-ec", command])
      expect({ command, ...(await lab.reconcile("--dry-run")) }).toMatchObject({ command, restored: [made] })
      expect({ command, ...(await lab.reconcile()) }).toMatchObject({ command, restored: [made] })
      expect({ command, shown: await shown() }).toEqual({ command, shown: before })
    }
    await host.exec("sh", ["-ec", `tc qdisc del dev ${end} root; ip link delete ${ifb}`])
    await lab.reconcile()
    const [address = ""] = (await first.pod.exec("hostname", ["-I"])).stdout.trim().split(" ")
    const amount = { bytes: 1_500_000, skip: 250_000 }
    await expectRate(rate, { from: host, to: first.pod, address, ...amount })
    await expectRate(rate, { from: first.pod, to: host, address: "10.85.0.1", ...amount })
    await lab.expectNothingToDo()
    await lab.expectNothingLeft(pods)
  },
)
