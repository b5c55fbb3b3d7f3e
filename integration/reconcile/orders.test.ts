import { expect, test } from "bun:test"
import { NodeLab, podsNetwork } from "../cni/node-lab.ts"
import { ruleSets } from "../cni/rule-sets.ts"
import { runFirewalld, startBus } from "../firewall/firewalld-lab.ts"
import {
  askEcho,
  type ContainerNamespace,
  chooseIptables,
  connectOutside,
  EchoPeer,
  type EchoQuestion,
  expectNoEcho,
  isLong,
  type Namespace,
  outside,
  scaleTimeout,
  uplink,
} from "../lab/mod.ts"

/** Connections: from pod to machine, from machine to published port, from pod to pod, and from host to pod. */
const flows = ["out", "in", "pods", "host"] as const
type Flow = (typeof flows)[number]

/** Another program that has its own rules on the node. */
interface Neighbour {
  readonly name: string
  /** Starts the program, restarts it, or makes it reload its rules. */
  start(lab: NodeLab): Promise<unknown>
  /** The connections that fail for pods that are attached while the program runs. */
  readonly before: Lost
  /**
   * The connections that pods lose if the program starts after them. With this suite they fail until `cni reconcile`,
   * with the Go plugins for good.
   */
  readonly after: Lost
}

/** The failing connections with the plugins of each suite. */
interface Lost {
  readonly ours: readonly Flow[]
  readonly reference: readonly Flow[]
}

const nothing: Lost = { ours: [], reference: [] }

/**
 * Returns a program's rules without the operator's rules for containers, so that only the firewall plugin admits
 * packets.
 */
function withoutPods(name: string): string {
  const rules = ruleSets[name]?.iptables
  if (rules === undefined) throw new Error(`There are no rules of ${name}`)
  return rules.replaceAll(/^-A .* cni0 .*\n/gm, "")
}
const restore = (rules: string) => (lab: NodeLab) => lab.host.exec("iptables-restore", ["--noflush"], { input: rules })
const empty =
  "*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\nCOMMIT\n*nat\n:PREROUTING ACCEPT\n:POSTROUTING ACCEPT\nCOMMIT\n"
const nftablesConf = `flush ruleset
table inet filter {
  chain input { type filter hook input priority filter; policy accept; }
  chain forward { type filter hook forward priority filter; policy accept; }
}
`

const neighbours: readonly Neighbour[] = [
  {
    name: "docker",
    start: restore(withoutPods("docker")),
    before: { ours: [], reference: ["in"] },
    after: { ours: [], reference: ["in"] },
  },
  {
    name: "ufw",
    start: restore(withoutPods("ufw, which forwards what its user allows")),
    before: { ours: [], reference: ["in"] },
    after: { ours: [], reference: ["in"] },
  },
  { name: "kube-proxy", start: restore(withoutPods("kube-proxy by iptables")), before: nothing, after: nothing },
  {
    name: "firewalld",
    start: startFirewalldAgain,
    before: nothing,
    after: { ours: ["out", "pods"], reference: ["out", "in", "pods"] },
  },
  {
    name: "iptables-restore of a file with FORWARD DROP",
    start: (lab) => lab.host.exec("iptables-restore", [], { input: empty }),
    before: { ours: [], reference: ["in"] },
    after: { ours: ["out", "in", "pods"], reference: ["out", "in", "pods"] },
  },
  {
    name: "nftables.service",
    start: (lab) => lab.host.exec("nft", ["-f", "-"], { input: nftablesConf }),
    before: nothing,
    after: { ours: ["out", "in"], reference: ["out", "in"] },
  },
  {
    name: "nft flush ruleset",
    start: (lab) => lab.host.exec("nft", ["flush", "ruleset"]),
    before: nothing,
    after: { ours: ["out", "in"], reference: ["out", "in"] },
  },
]

/** Starts firewalld, or reloads it if it runs. */
async function startFirewalldAgain({ host }: NodeLab): Promise<void> {
  if ((await host.tryExec("firewall-cmd", ["--state"])).exitCode === 0) await host.exec("firewall-cmd", ["--reload"])
  else {
    await startBus(host)
    await runFirewalld(host)
  }
}

const orders = ["before the pods", "after the pods", "before and again after"] as const

const suites = {
  ours: {},
  reference: { binDir: "/usr/lib/cni" },
} as const

/** The network of pods, in the newest version that Debian's Go plugins support. */
const network = { ...podsNetwork, cniVersion: "1.0.0", plugins: [...podsNetwork.plugins, { type: "firewall" }] }

/** A node with two pods, and another machine that has no route to the pods. */
class Crossing {
  readonly #flows: Readonly<Record<Flow, readonly [from: Namespace, question: EchoQuestion]>>

  constructor(lab: NodeLab, other: Namespace, client: ContainerNamespace) {
    const ask = (address: string, port: number): EchoQuestion => ({ transport: "tcp", address, port })
    this.#flows = {
      out: [client, ask(outside.ip, 9000)],
      in: [other, ask(uplink.ip, 8002)],
      pods: [client, ask("10.85.0.3", 80)],
      host: [lab.host, ask("10.85.0.3", 80)],
    }
  }

  /**
   * Checks that the connections in `lost`, and no others, fail. Packets to the other machine must have the host's
   * address.
   */
  async expectLost(lost: readonly Flow[]): Promise<void> {
    for (const flow of flows) {
      const [from, question] = this.#flows[flow]
      if (lost.includes(flow)) await expectNoEcho(from, question)
      else {
        const reply = await askEcho(from, question)
        if (flow === "out") expect(reply.from.address).toBe(uplink.ip)
      }
    }
  }
}

const rows = neighbours.flatMap((neighbour) =>
  orders.flatMap((order) => (["ours", "reference"] as const).map((suite) => ({ neighbour, order, suite }))),
)
/** The tests that run: in `npm test` every sixth, with each order for each suite; all in the long form. */
const chosen = isLong ? rows : rows.filter((_, at) => at % 6 === (Math.floor(at / 6) * 5 + 5) % 6)

for (const { neighbour, order, suite } of chosen) {
  const title = `${neighbour.name}, ${order} of ${suite === "ours" ? "these plugins" : "the reference plugins"}`
  test(
    `${title}: what is lost, and comes back`,
    async () => {
      await using lab = await NodeLab.create(network)
      await chooseIptables(lab.host, "nf_tables")
      Object.assign(lab, suites[suite])
      const other = await connectOutside(lab.host)
      await using _there = await EchoPeer.start(other, { port: 9000 })
      if (order !== "after the pods") await neighbour.start(lab)
      const [client, server] = [await lab.addPod("client"), await lab.addPod("server")]
      await using _here = await EchoPeer.start(server, { port: 80 })
      const crossing = new Crossing(lab, other, client)
      await crossing.expectLost(order === "after the pods" ? [] : neighbour.before[suite])
      if (order === "before the pods") return
      await neighbour.start(lab)
      await crossing.expectLost(neighbour.after[suite])
      if (suite === "reference") return
      const reconciled = await lab.cni(["reconcile"])
      expect({ exitCode: reconciled.exitCode, stderr: reconciled.stderr }).toEqual({ exitCode: 0, stderr: "" })
      await crossing.expectLost([])
      if (neighbour.name !== "firewalld") return
      for (const pod of [client, server]) {
        const { exitCode, stderr } = await lab.cni(["del", "pods", pod.path, "--container-id", pod.name])
        expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
      }
      const sources = await lab.host.exec("firewall-cmd", ["--zone=trusted", "--list-sources"])
      expect(sources.stdout.trim()).toBe("")
    },
    scaleTimeout(120_000),
  )
}
