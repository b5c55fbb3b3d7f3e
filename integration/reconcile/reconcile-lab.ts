import { expect } from "bun:test"
import { execa } from "execa"
import { NodeLab, podsNetwork } from "../cni/node-lab.ts"
import {
  askEcho,
  type Change,
  type ContainerNamespace,
  connectOutside,
  EchoPeer,
  expectNoEcho,
  expectUnchanged,
  type HostNamespace,
  isAllocationTrace,
  isLong,
  type Namespace,
  outside,
  programEnv,
  type Snapshot,
  seed,
  takeSnapshot,
  uplink,
  waitFor,
} from "../lab/mod.ts"

/** The output of `cni reconcile -o json`. */
export interface Reconciled {
  readonly dryRun: boolean
  readonly restored: readonly object[]
  readonly failed: readonly { error: { msg: string } }[]
  readonly skipped: readonly object[]
  readonly foreign: readonly object[]
}

/** A container with a server on port 80, and the host port that publishes it. */
export interface Published {
  readonly pod: ContainerNamespace
  readonly hostPort: number
}

/**
 * A node with pods, and another machine without a route to the pods. The machine reaches pods only through published
 * ports, and pods reach the machine only with the host's address.
 */
export class ReconcileLab implements AsyncDisposable {
  readonly node: NodeLab
  readonly outside: ContainerNamespace
  readonly before: Snapshot
  readonly network: string
  readonly #servers: EchoPeer[] = []

  private constructor({
    node,
    outside,
    before,
    network,
  }: Pick<ReconcileLab, "node" | "outside" | "before" | "network">) {
    this.node = node
    this.outside = outside
    this.before = before
    this.network = network
  }

  static async create(
    network: { cniVersion?: string; name: string; plugins: readonly object[] } = podsNetwork,
  ): Promise<ReconcileLab> {
    const node = await NodeLab.create(network)
    const other = await connectOutside(node.host)
    const lab = new ReconcileLab({ node, outside: other, before: await takeSnapshot(node.host), network: network.name })
    lab.#servers.push(await EchoPeer.start(other, { port: 9000 }))
    return lab
  }

  get host(): HostNamespace {
    return this.node.host
  }

  /** Adds pods, each with one published port for these protocols. */
  async addPods(count: number, protocols?: readonly string[]): Promise<Published[]> {
    const pods: Published[] = []
    for (let at = 0; at < count; at++) {
      const pod = await this.node.addPod(`web-${at}`, this.network, undefined, protocols)
      const hostPort = this.node.lastPort
      this.#servers.push(await EchoPeer.start(pod, { port: 80 }))
      pods.push({ pod, hostPort })
    }
    return pods
  }

  async removePods(pods: readonly Published[]): Promise<void> {
    for (const { pod } of pods) {
      const { exitCode, stderr } = await this.node.cni(["del", this.network, pod.path, "--container-id", pod.name])
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
    }
  }

  /** Checks that DEL of the last pods leaves only forwarding, the empty bridge, and the `route_localnet` guard. */
  async expectNothingLeft(pods: readonly Published[]): Promise<void> {
    await this.removePods(pods)
    await this.host.tryExec("ip", ["link", "delete", "cni0"])
    await this.host.exec("sysctl", ["-qw", "net.ipv4.ip_forward=0"])
    await this.host.exec("rm", ["-rf", "/run/cni/deletions", "/run/cni/reconcile.lock"])
    const isExpected = (change: Change) => isAllocationTrace(change) || isGuard(change)
    expectUnchanged(this.before, await takeSnapshot(this.host), isExpected)
  }

  /** Runs `cni reconcile -o json` and returns its output. Throws if the exit code is not 0. */
  async reconcile(...words: string[]): Promise<Reconciled> {
    const { stdout, stderr, exitCode } = await this.node.cni(["reconcile", "-o", "json", ...words])
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
    return JSON.parse(stdout) as Reconciled
  }

  /** Checks that another run changes nothing and sends no change to the packet filter. */
  async expectNothingToDo(): Promise<void> {
    const before = await takeSnapshot(this.host)
    await using changes = await RuleMonitor.start(this.host)
    expect(await this.reconcile("--dry-run")).toMatchObject({ restored: [], failed: [] })
    expect(await this.reconcile()).toMatchObject({ restored: [], failed: [] })
    expect(await changes.stop()).toEqual([])
    expectUnchanged(before, await takeSnapshot(this.host))
  }

  /**
   * Checks that each pod reaches the other machine with the host's address, and that the machine reaches the pod's
   * port.
   */
  async expectTraffic(pods: readonly Published[]): Promise<void> {
    for (const { pod, hostPort } of pods) {
      const there = await askEcho(pod, { transport: "tcp", address: outside.ip, port: 9000 })
      expect(there.from.address).toBe(uplink.ip)
      const here = await askEcho(this.outside, { transport: "tcp", address: uplink.ip, port: hostPort })
      expect(here.from.address).toBe(outside.ip)
    }
  }

  /** Checks that the first pod cannot reach the other machine, nor the machine the pod. */
  async expectNoTraffic([first]: readonly Published[]): Promise<void> {
    if (!first) throw new Error("no pod")
    await expectNoEcho(first.pod, { transport: "tcp", address: outside.ip, port: 9000 })
    await expectNoEcho(this.outside as Namespace, { transport: "tcp", address: uplink.ip, port: first.hostPort })
  }

  /** Returns the rule set as sorted lines, without handles and counters. */
  async ruleSet(): Promise<string[]> {
    const { nftables } = await this.host.json<{ nftables: object[] }>("nft", ["-j", "list", "ruleset"])
    return nftables.flatMap((one) => ("metainfo" in one ? [] : [JSON.stringify(sorted(one))])).sort()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.#servers) await server[Symbol.asyncDispose]()
    await this.node[Symbol.asyncDispose]()
  }
}

/**
 * Reports whether a change is the guard of `route_localnet`. DEL keeps the guard if a flush deleted portmap's record.
 */
function isGuard({ line }: Change): boolean {
  return /^(table ip cni_hostports$|(set|chain|rule) ip cni_hostports (localnet_guarded|raw)\b)/.test(line)
}

/** A running `nft monitor` with its output so far. */
export class RuleMonitor implements AsyncDisposable {
  #text = ""
  readonly #host: HostNamespace
  readonly #kill: () => void

  private constructor(host: HostNamespace) {
    const [file = "", ...args] = host.commandLine(["stdbuf", "-oL", "nft", "monitor"])
    const monitor = execa(file, args, { env: programEnv, extendEnv: false, stdin: "ignore", reject: false })
    monitor.stdout.on("data", (chunk) => {
      this.#text += chunk
    })
    this.#host = host
    this.#kill = () => monitor.kill("SIGKILL")
  }

  static async start(host: HostNamespace): Promise<RuleMonitor> {
    const monitor = new RuleMonitor(host)
    await monitor.#sees("begin")
    return monitor
  }

  /** Returns the changes so far, after all of them have arrived. */
  async stop(): Promise<string[]> {
    await this.#sees("end")
    const lines = this.#text.split("\n").slice(0, -1)
    return lines.filter((line) => !/^# new generation|table ip (begin|end)$/.test(line))
  }

  /** Returns the transactions of a program so far. */
  async transactionsBy(program: string): Promise<string[]> {
    await this.#sees("end")
    return this.#text.split("\n").filter((line) => line.startsWith("# new generation") && line.includes(`(${program})`))
  }

  async #sees(name: string): Promise<void> {
    await waitFor(async () => {
      await this.#host.exec("nft", [`add table ip ${name}; delete table ip ${name}`])
      return this.#text.includes(`table ip ${name}\n`)
    }, `a change of table "${name}"`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill()
  }
}

/** Returns `quick` elements of a list, spread evenly and shifted by the seed; the whole list in the long form. */
export function some<T>(all: readonly T[], quick: number): T[] {
  const step = Math.max(1, Math.floor(all.length / quick))
  return isLong ? [...all] : all.filter((_, at) => at % step === seed % step)
}

/** Returns an entry of `cni reconcile`'s output for an attachment. */
export function madeFor({ pod }: Published, plugin: string, what: string, network = "pods"): object {
  return { plugin, network, containerId: pod.name, ifName: "eth0", what }
}

/**
 * Returns the lines without the record about `route_localnet`. After a flush the record may differ, because nothing
 * tells which program enabled the setting.
 */
export function withoutLocalnetRecord(lines: readonly string[]): string[] {
  return lines.filter((line) => !/"name":"localnet_(links|guarded)"/.test(line))
}

/** Returns a copy without handles and counters, and with sorted set elements. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== "object" || value === null) return value
  const entries = Object.entries(value).filter(([key]) => !["handle", "packets", "bytes"].includes(key))
  return Object.fromEntries(
    entries.map(([key, each]) => {
      const copy = sorted(each)
      return [key, key === "elem" && Array.isArray(copy) ? copy.map((one) => JSON.stringify(one)).sort() : copy]
    }),
  )
}
