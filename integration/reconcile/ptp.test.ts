import { expect, test } from "bun:test"
import { pingOnce } from "../lab/mod.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

const network = {
  cniVersion: "1.1.0",
  name: "pairs",
  plugins: [
    {
      type: "ptp",
      ipMasq: true,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.86.0.0/24" }], [{ subnet: "fd00:86::/64" }]],
        routes: [{ dst: "0.0.0.0/0" }],
      },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

test("cni reconcile restores routes, gateway addresses and the state of ptp's ends on the host, and forwarding", async () => {
  await using lab = await ReconcileLab.create(network)
  const pods = await lab.addPods(2)
  await lab.expectTraffic(pods)
  const [first] = pods as [Published]
  const { host } = lab
  const links = await host.json<{ ifname: string; ifalias?: string }[]>("ip", ["-j", "link"])
  const end = links.find(({ ifalias }) => ifalias?.includes(first.pod.name))?.ifname ?? ""
  const shown = async () => {
    const routes = [await host.exec("ip", ["route"]), await host.exec("ip", ["-6", "route", "show", "fd00:86::/64"])]
    const addresses = await host.exec("ip", ["-o", "address", "show", "dev", end, "scope", "global"])
    return [...routes, addresses].map(({ stdout }) => stdout.split("\n").sort())
  }
  const before = await shown()
  const made = madeFor(first, "ptp", `host's end "${end}"`, "pairs")
  const sabotages: [string, object][] = [
    ["ip route delete 10.86.0.2", made],
    [`ip address delete 10.86.0.1/32 dev ${end}`, made],
    [`ip -6 route delete fd00:86::2 dev ${end}`, made],
    [`ip link set ${end} down`, made],
    [`sysctl -qw net.ipv6.conf.${end}.accept_ra=1`, made],
    ["sysctl -qw net.ipv4.ip_forward=0", { plugin: "ptp", network: "pairs", what: "forwarding of IPv4" }],
  ]
  for (const [command, what] of sabotages) {
    await host.exec("sh", ["-ec", command])
    expect({ command, ...(await lab.reconcile("--dry-run")) }).toMatchObject({ command, restored: [what] })
    expect({ command, ...(await lab.reconcile()) }).toMatchObject({ command, restored: [what] })
    expect({ command, shown: await shown() }).toEqual({ command, shown: before })
    expect(await lab.reconcile()).toMatchObject({ restored: [] })
  }
  await host.exec("nft", ["flush", "ruleset"])
  expect(await pingOnce(first.pod, "203.0.113.9")).toBe(false)
  await lab.reconcile()
  await lab.expectTraffic(pods)
  await lab.expectNothingToDo()
})
