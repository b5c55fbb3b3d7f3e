import { HostNamespace, pluginEnv, Station } from "../../integration/lab/mod.ts"
import type { Contender, Scenario } from "../measure.ts"
import { pluginPath, type Suite } from "../suites.ts"

/** Containers of the host that have a port mapped before the measurement begins. */
const fillings = [1, 1_000] as const

/** A container that an interface plugin has made, with one port to be mapped, in the newest version that both suites speak. */
function portmapConfig(netns: string) {
  return {
    cniVersion: "1.0.0",
    name: "bench",
    type: "portmap",
    runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] },
    prevResult: {
      cniVersion: "1.0.0",
      interfaces: [{ name: "bench0" }, { name: "eth0", sandbox: netns }],
      ips: [{ address: "10.88.0.2/16", gateway: "10.88.0.1", interface: 1 }],
    },
  }
}

const addressOf = (index: number) => `10.88.${(index + 3) >> 8}.${(index + 3) & 0xff}`
const indexes = (count: number) => Array.from({ length: count }, (_, index) => index)

/** What a suite keeps of so many containers with one port each, in either packet filter, as a file for the program that loads it. */
const others: Readonly<
  Record<"nftables" | "iptables", { program: readonly string[]; file: (count: number) => string }>
> = {
  nftables: {
    program: ["nft", "-f", "-"],
    file: (count) =>
      indexes(count)
        .map((index) => {
          const [ip, owner] = [addressOf(index), `comment "bench/other-${index}/eth0"`]
          return `add element ip cni_hostports ports { tcp . ${20_000 + index} ${owner} : ${ip} . 80 }
            add element ip cni_hostports hairpin { 10.88.0.0 . ${ip} ${owner} }
            add element ip cni_hostports localhost { ${ip} ${owner} }\n`
        })
        .join(""),
  },
  iptables: {
    program: ["iptables-restore", "--noflush"],
    file: (count) => `*nat\n${indexes(count).map(goRules).join("")}COMMIT\n`,
  },
}

function goRules(index: number): string {
  const chain = `CNI-DN-${index.toString(16).padStart(21, "0")}`
  const port = 20_000 + index
  const comment = `--comment "dnat name: \\"bench\\" id: \\"other-${index}\\""`
  return `:${chain} - [0:0]
-A ${chain} -s 10.88.0.0/16 -p tcp -m tcp --dport ${port} -j CNI-HOSTPORT-SETMARK
-A ${chain} -s 127.0.0.1/32 -p tcp -m tcp --dport ${port} -j CNI-HOSTPORT-SETMARK
-A ${chain} -p tcp -m tcp --dport ${port} -j DNAT --to-destination ${addressOf(index)}:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment ${comment} -m multiport --dports ${port} -j ${chain}
`
}

/** Times ADD and DEL of one suite on a host of its own, on which so many other containers have a port. */
async function startPortmap(suite: Suite, count: number): Promise<Contender> {
  await using stack = new AsyncDisposableStack()
  const host = stack.use(await HostNamespace.create())
  const pod = await host.addContainer()
  await host.exec("ip", ["link", "add", "bench0", "up", "type", "bridge"])
  await host.exec("ip", ["address", "add", "10.88.0.1/16", "dev", "bench0"])
  const station = stack.use(Station.open(host))
  const bin = pluginPath(suite, "portmap")
  const config = portmapConfig(pod.path)
  const call = { bin, netns: pod.path, ifName: "eth0", path: suite.directory }
  const run = (verb: "ADD" | "DEL", containerId: string, input: object) =>
    station.time({ command: [bin], env: pluginEnv({ ...call, verb, containerId }), input: JSON.stringify(input) })
  const resident = { ...config.prevResult, ips: [{ address: "10.88.255.2/16", interface: 1 }] }
  const port = { hostPort: 8079, containerPort: 80, protocol: "tcp" }
  await run("ADD", "resident", { ...config, prevResult: resident, runtimeConfig: { portMappings: [port] } })
  if (count > 1) {
    const isNftables = (await host.tryExec("nft", ["list", "table", "ip", "cni_hostports"])).exitCode === 0
    const { program, file } = others[isNftables ? "nftables" : "iptables"]
    const [name = "", ...args] = program
    await host.exec(name, args, { input: file(count - 1) })
  }
  const kept = stack.move()
  let rounds = 0
  return {
    async round() {
      const containerId = `bench-${++rounds}`
      return { ADD: await run("ADD", containerId, config), DEL: await run("DEL", containerId, config) }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

const numbers = new Intl.NumberFormat("en")

/** The name of a suite's contender on a host that has so many mappings. */
export const withMappings = (suite: Suite["name"], count: number) => `${suite}, ${numbers.format(count)} mapped`

/** One port of one container, beside one other mapping and beside a thousand. */
export function portmaps(suites: readonly Suite[]): Scenario[] {
  const filled = suites.flatMap((suite) =>
    fillings.map((count) => [withMappings(suite.name, count), () => startPortmap(suite, count)] as const),
  )
  return [
    {
      name: "portmap",
      steps: ["ADD", "DEL"],
      contenders: Object.fromEntries(filled),
      baseline: withMappings("Go", 1),
    },
  ]
}
