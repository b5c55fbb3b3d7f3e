import { HostNamespace, type Job, pluginEnv, Station, startDaemon, waitFor } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { contendersOf, pluginPath, type Suite } from "../suites.ts"

const server = [
  ...["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--no-ping", "--pid-file="],
  ...["--interface=br-dhcp", "--bind-interfaces", "--dhcp-range=10.99.0.50,10.99.0.250,2m", "--dhcp-authoritative"],
  ...["--dhcp-leasefile=/run/cni/leases", "--log-facility=/run/cni/log"],
]

async function start(suite: Suite): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  const lines = [
    "link add br-dhcp up type bridge",
    "address add 10.99.0.1/24 dev br-dhcp",
    `link add port up master br-dhcp type veth peer name eth0 netns ${pod.name}`,
  ]
  await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  await pod.exec("ip", ["link", "set", "eth0", "up"])
  const bin = pluginPath(suite, "dhcp")
  await startDaemon(host.commandLine(server))
  await startDaemon(host.commandLine([bin, "daemon"]))
  await waitFor(
    async () => (await host.tryExec("test", ["-S", "/run/cni/dhcp.sock", "-a", "-e", "/run/cni/log"])).exitCode === 0,
    "server and daemon",
  )
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "bench", type: "bridge", ipam: { type: "dhcp" } })
  const call = { bin, netns: pod.path, ifName: "eth0", path: suite.directory, containerId: "bench" }
  const job = (verb: "ADD" | "DEL"): Job => ({ command: [bin], env: pluginEnv({ ...call, verb }), input })
  const station = stack.use(Station.open(host))
  const kept = stack.move()
  return {
    round: async () => ({ ADD: await station.time(job("ADD")), DEL: await station.time(job("DEL")) }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

/** Returns the scenario of a lease by dnsmasq: four packets, and the suite's work for them. */
export function dhcps(suites: readonly Suite[]): Scenario[] {
  return [{ name: "dhcp", steps: ["ADD", "DEL"], contenders: contendersOf(suites, start), baseline: "Go" }]
}
