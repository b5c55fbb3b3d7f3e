import { expect, test } from "bun:test"
import { join } from "node:path"
import { type Block, keyOf, type Owner, openStore, putPool, type Store } from "../../agent/mod.ts"
import { builtPlugins, isLong, programEnv, seed, waitFor } from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"

const program = join(builtPlugins, "../cni-agent")
const socket = "/run/cni-agent/agent.sock"
const poolFile = "/var/lib/cni/pools/pods.json"
const other: Owner = { name: "node-2", uid: "uid-2", machineId: "machine-2" }

const network = {
  cniVersion: "1.1.0",
  name: "pods",
  plugins: [
    {
      type: "bridge",
      bridge: "cni0",
      isDefaultGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: "host-local", pool: "pods" },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

/** A node of a cluster whose store is a directory, with an agent and a pool. */
class ClusterNode implements AsyncDisposable {
  readonly lab: NodeLab
  readonly store: Store
  #agent: Bun.Subprocess | undefined

  private constructor(lab: NodeLab, store: Store) {
    this.lab = lab
    this.store = store
  }

  /** A pool of 16 blocks, or another prefix. */
  static async create(prefix = { prefix: "10.85.0.0/22", blockLength: 26 }): Promise<ClusterNode> {
    const lab = await NodeLab.create(network)
    const path = lab.directory.join("store")
    const node = new ClusterNode(lab, await openStore({ type: "directory", path }, {}))
    await lab.host.exec("sh", ["-ec", "mkdir -p /run/cni-agent; mount -t tmpfs -o mode=755 cni-test /run/cni-agent"])
    await node.configure({ type: "directory", path })
    await putPool(node.store, {
      name: "pods",
      prefixes: [{ ...prefix, reserved: [] }],
      routes: [],
      network: "pods",
      quarantineS: 3600,
      routing: "none",
    })
    await node.start()
    const file = Bun.file(lab.host.file(poolFile))
    await waitFor(async () => (await file.json()).sets[0].blocks.length > 0, "a block of the pool")
    return node
  }

  get configuration(): string {
    return this.lab.directory.join("agent.json")
  }

  async configure(store: object): Promise<void> {
    await Bun.write(this.configuration, JSON.stringify({ node: "node-1", http: "", store }))
  }

  /** Has the disk refuse all writes to the directory of pools, or take them again. */
  async refuseWrites(isRefusing: boolean): Promise<void> {
    const [pools, { host }] = ["/var/lib/cni/pools", this.lab]
    if (!isRefusing) return void (await host.exec("umount", [pools]))
    await host.exec("mount", ["--bind", pools, pools])
    await host.exec("mount", ["-o", "remount,bind,ro", pools])
  }

  /** The agent's node, as its records name it. */
  async self(): Promise<Owner> {
    const [record] = await this.store.list("node")
    return record?.value.owner ?? expect.unreachable()
  }

  /** Starts the agent; ends when it is ready, or when it answers. */
  async start(path: "/readyz" | "/healthz" = "/readyz"): Promise<void> {
    const command = this.lab.host.commandLine([program, "run", "--config", this.configuration])
    this.#agent = Bun.spawn(command, { env: { ...programEnv }, stdio: ["ignore", "ignore", "ignore"] })
    const isReady = async () => (await this.ask(path)) === "ok\n"
    await waitFor(isReady, "the agent to answer")
  }

  async kill(): Promise<void> {
    this.#agent?.kill("SIGKILL")
    await this.#agent?.exited
  }

  async ask(path: string): Promise<string> {
    const answer = await fetch(`http://agent${path}`, { unix: this.lab.host.file(socket) }).catch(() => undefined)
    return (await answer?.text()) ?? ""
  }

  /** `cni-agent …` on the node. */
  agent(...words: string[]) {
    return this.lab.host.tryExec(program, [...words, "--config", this.configuration], { env: { ...programEnv } })
  }

  own(prefix: string, state: Block["state"] = "owned", owner = other) {
    const block: Block = { pool: "pods", prefix, owner, nonce: "n", epoch: 1, state }
    return this.store.create("block", keyOf.block(block), block)
  }

  /** Has another node own the blocks of this one. */
  async handOver(): Promise<void> {
    await this.store.create("node", "node-2", { owner: other, addresses: [] })
    for (const record of await this.store.list("block"))
      await this.store.replace(record, { ...record.value, owner: other, nonce: "n2", epoch: record.value.epoch + 1 })
  }

  /** Removes pods, so many or all. */
  async removePods(count?: number): Promise<void> {
    const { stdout } = await this.lab.cni(["ps", "--json"])
    const pods = JSON.parse(stdout) as { containerId: string; netns: string }[]
    for (const { containerId, netns } of pods.slice(0, count))
      await this.lab.cni(["del", "pods", netns, "--container-id", containerId])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    await this.store[Symbol.asyncDispose]()
    await this.lab[Symbol.asyncDispose]()
  }
}

/** What is broken on a node of a cluster, what doctor has to say of it, and how it is mended by what the remedy says. */
interface ClusterFault {
  readonly rule: string
  readonly severity: "error" | "warning"
  readonly names: RegExp
  readonly remedy: RegExp
  /** The pool, where it is another one. */
  readonly pool?: { prefix: string; blockLength: number }
  seed(node: ClusterNode): Promise<unknown>
  mend(node: ClusterNode): Promise<unknown>
  /** Causes that come with it. */
  readonly besides?: readonly string[]
}

const faults: readonly ClusterFault[] = [
  {
    rule: "agent-dead",
    severity: "error",
    names: /no process listens at "\/run\/cni-agent\/agent\.sock"; networks take addresses from pool "pods"/,
    remedy: /start it/,
    seed: (node) => node.kill(),
    mend: (node) => node.start(),
  },
  {
    rule: "pool-file",
    severity: "error",
    names: /pool "pods" gives no address here: there is no "\/var\/lib\/cni\/pools\/pods\.json"/,
    remedy: /have the agent write it again/,
    seed: async (node) => {
      await node.kill()
      await node.lab.host.exec("rm", [poolFile])
    },
    mend: (node) => node.start(),
    besides: ["agent-dead", "status"],
  },
  {
    rule: "pool-file",
    severity: "error",
    names: /"\/var\/lib\/cni\/pools\/pods\.json" is torn/,
    remedy: /mv \/var\/lib\/cni\/pools\/pods\.json \/var\/lib\/cni\/pools\/pods\.json\.bad/,
    seed: async (node) => {
      await node.kill()
      await node.lab.host.exec("truncate", ["-s", "100", poolFile])
    },
    mend: async (node) => {
      await node.lab.host.exec("mv", [poolFile, `${poolFile}.bad`])
      await node.start()
    },
    besides: ["agent-dead", "status"],
  },
  {
    rule: "pool-file-old",
    severity: "warning",
    names: /it lacks 10\.85\.3\.192\/26 \(.*[Rr]ead-only file system.*\)/,
    remedy: /systemctl restart cni-agent/,
    seed: async (node) => {
      await node.refuseWrites(true)
      await node.own("10.85.3.192/26", "owned", await node.self())
    },
    mend: async (node) => {
      await node.kill()
      await node.refuseWrites(false)
      await node.start()
    },
  },
  {
    rule: "pool-file-old",
    severity: "error",
    names: /it has 10\.85\.\d+\.\d+\/26, which is not this node's/,
    remedy: /systemctl restart cni-agent/,
    seed: async (node) => {
      await node.refuseWrites(true)
      await node.handOver()
    },
    mend: async (node) => {
      await node.kill()
      await node.refuseWrites(false)
      await node.start()
      await node.removePods()
    },
  },
  {
    rule: "store-unreachable",
    severity: "warning",
    names: /the agent does not reach etcd at http:\/\/127\.0\.0\.1:1/,
    remedy: /cni-agent status/,
    seed: async (node) => {
      await node.kill()
      await node.configure({ type: "etcd", endpoints: ["http://127.0.0.1:1"] })
      await node.start("/healthz")
    },
    mend: async (node) => {
      await node.kill()
      await node.configure({ type: "directory", path: node.lab.directory.join("store") })
      await node.start()
    },
  },
  {
    rule: "cluster-pool-full",
    severity: "error",
    names:
      /no block of 10\.85\.0\.0\/28 of pool "pods" is free in the cluster, and this node has 0 of 10 addresses left/,
    remedy: /cni-agent ipam pool show pods/,
    pool: { prefix: "10.85.0.0/28", blockLength: 29 },
    seed: async ({ lab }) => {
      for (let count = 2; count < 10; count++) await lab.addPod(`more-${count}`)
    },
    mend: async ({ lab }) => {
      const { stdout } = await lab.cni(["ps", "--json"])
      const [, , ...more] = JSON.parse(stdout) as { containerId: string; netns: string }[]
      for (const { containerId, netns } of more) await lab.cni(["del", "pods", netns, "--container-id", containerId])
    },
  },
  {
    rule: "pool-unknown",
    severity: "error",
    names: /network "second" takes addresses from pool "other", which the agent does not know/,
    remedy: /cni-agent ipam pool create other/,
    seed: ({ lab }) => {
      const plugins = [{ type: "bridge", bridge: "cni1", ipam: { type: "host-local", pool: "other" } }]
      return lab.writeNetwork("20-second.conflist", { ...network, name: "second", plugins })
    },
    mend: async (node) => {
      await node.agent("ipam", "pool", "create", "other", "--prefix", "10.99.0.0/24", "--network", "second")
      const isThere = async () =>
        (await node.lab.host.tryExec("test", ["-e", "/var/lib/cni/pools/other.json"])).exitCode === 0
      await waitFor(isThere, "the file of the pool")
    },
    besides: ["pool-file", "status"],
  },
  {
    rule: "blocks-of-gone-nodes",
    severity: "warning",
    names: /1 block of 10\.85\.0\.0\/22 of pool "pods" is in quarantine/,
    remedy: /cni-agent ipam release-node NODE --now/,
    seed: (node) => node.own("10.85.3.192/26", "quarantined"),
    mend: (node) => node.agent("ipam", "release-node", "node-2", "--now"),
  },
  {
    rule: "cluster-pool-low",
    severity: "warning",
    names: /3 of 16 blocks of 10\.85\.0\.0\/22 of pool "pods" are free in the cluster: 13 are owned/,
    remedy: /cni-agent ipam pool show pods/,
    seed: async (node) => {
      await node.store.create("node", "node-2", { owner: other, addresses: [] })
      const own = new Set((await node.store.list("block")).map(({ value }) => value.prefix))
      const all = Array.from({ length: 16 }, (_, at) => `10.85.${at >> 2}.${(at & 3) * 64}/26`)
      for (const prefix of all.filter((each) => !own.has(each)).slice(0, 13 - own.size)) await node.own(prefix)
    },
    mend: (node) => node.agent("ipam", "release-node", "node-2", "--now"),
  },
  {
    rule: "lost-block",
    severity: "error",
    names: /is node "node-2"'s now, and 2 containers here have addresses of it/,
    remedy: /kubectl delete pod --namespace shop web-1; kubectl delete pod --namespace shop web-2/,
    seed: (node) => node.handOver(),
    mend: async (node) => {
      await node.removePods()
      expect((await node.store.list("block")).length).toBeGreaterThan(1)
    },
  },
  {
    rule: "store-stopped",
    severity: "error",
    names: /the agent neither claims nor gives back blocks/,
    remedy: /cni-agent ipam accept-store$/,
    seed: async (node) => {
      await node.kill()
      await Bun.write(node.lab.directory.join("store/cluster"), "another")
      await node.start("/healthz")
    },
    mend: (node) => node.agent("ipam", "accept-store"),
  },
]

/** Every second fault in `npm test`. */
const chosen = faults.filter((_, at) => isLong || at % 2 === seed % 2)

test.each(chosen.map((fault) => [`${fault.rule}, ${fault.names.source.slice(0, 40)}`, fault] as const))(
  "%s: found, and gone after what its remedy says",
  async (_, { rule, severity, names, remedy, seed: breakNode, mend, besides = [], pool }) => {
    await using node = await ClusterNode.create(pool)
    const { lab } = node
    await lab.addPod("web-1")
    await lab.addPod("web-2")
    expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
    await breakNode(node)
    let found: Awaited<ReturnType<NodeLab["doctor"]>>["findings"] = []
    const isFound = async () => {
      found = (await lab.doctor()).findings
      return found.some((each) => each.rule === rule)
    }
    await waitFor(isFound, `doctor to find ${rule}`)
    expect(found.filter((each) => each.rule === rule)).toMatchObject([
      { severity, what: expect.stringMatching(names), remedy: expect.stringMatching(remedy), pasteable: false },
    ])
    const others = found.filter((each) => each.rule !== rule && !besides.includes(each.rule))
    expect(others.map((each) => `${each.rule}: ${each.what}`)).toEqual([])
    await mend(node)
    let left: unknown
    const isMended = async () => {
      left = await lab.doctor()
      return Bun.deepEquals(left, { findings: [], stderr: "", exitCode: 0 })
    }
    await waitFor(isMended, "doctor to find nothing").catch(() => expect(left).toEqual({ findings: [] }))
  },
)
