import { expect } from "bun:test"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import {
  buildStation,
  builtPlugins,
  type ContainerNamespace,
  expectUnchanged,
  extent,
  HostNamespace,
  isAllocationTrace,
  type Job,
  newest,
  type PluginResult,
  pluginEnv,
  Station,
  scaleTimeout,
  takeSnapshot,
  tellFigure,
  testWith,
} from "../lab/mod.ts"

const passes = extent(60, 20_000)
const others = extent(20, 110)
/** The number of passes between two checks of the host. */
const stretch = extent(30, 1000)

/**
 * One in this number of passes also runs on a new host. Other load of the machine slows down both hosts, so their
 * comparison is fair.
 */
const compared = extent(15, 10)

/** A chain of plugins with a pool of 1021 addresses. The long form uses each address 20 times. */
const chain = [
  {
    type: "bridge",
    bridge: "br-soak",
    isDefaultGateway: true,
    ipMasq: true,
    hairpinMode: true,
    ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/22" }]] },
  },
  { type: "tuning", sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" }, mtu: 1400, txQLen: 77 },
  { type: "portmap" },
  { type: "firewall", ingressPolicy: "same-bridge" },
  { type: "bandwidth", ingressRate: "80M", egressRate: "80M" },
]

/** Returns the calls of a verb for one pod, in the order of a runtime. DEL gets the result of ADD as `prevResult`. */
function jobsOf(verb: "ADD" | "DEL", pod: ContainerNamespace, hostPort: number, prevResult?: object): Job[] {
  const runtimeConfig = { portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }] }
  const jobs = chain.map((keys, at) => {
    const bin = join(builtPlugins, keys.type)
    const config = { cniVersion: newest, name: "soak", ...keys, runtimeConfig, ...(prevResult && { prevResult }) }
    const env = pluginEnv({ bin, verb, containerId: pod.name, netns: pod.path, ifName: "eth0" })
    return { command: [bin], env, input: JSON.stringify(config), takesResult: verb === "ADD" && at > 0 }
  })
  return verb === "ADD" ? jobs : jobs.reverse()
}

/** The number of objects of each kind on the host while the pod is not attached. */
interface Sizes {
  readonly links: number
  readonly ruleSetElements: number
  readonly ruleSetBytes: number
  readonly storeFiles: number
  readonly indexBytes: number
  readonly runFiles: number
  readonly runBytes: number
}

async function sizesOf(host: HostNamespace): Promise<Sizes> {
  const lines = async (file: string, ...args: string[]) =>
    (await host.exec(file, args)).stdout.split("\n").filter(Boolean)
  const files = async (...find: string[]) =>
    (await lines("find", ...find, "-type", "f", "-printf", "%s\\n")).map(Number)
  const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0)
  const ruleSet = (await host.exec("nft", ["list", "ruleset"])).stdout
  const indexDirectory = "/var/lib/cni/networks/soak/.index"
  const [store, index, bitmap, run] = await Promise.all([
    files("/var/lib/cni"),
    files(indexDirectory, "!", "-name", "used-*"),
    files(indexDirectory, "-name", "used-*"),
    files("/run/cni"),
  ])
  // The bitmap ends with the highest address that was ever assigned.
  expect(sum(bitmap)).toBeLessThanOrEqual(1024 / 8)
  return {
    links: (await lines("ip", "-o", "link")).length,
    ruleSetElements: ruleSet.split("comment").length - 1,
    ruleSetBytes: ruleSet.length,
    storeFiles: store.length,
    indexBytes: sum(index),
    runFiles: run.length,
    runBytes: sum(run),
  }
}

/** Returns the unreclaimable slab memory of the whole machine, in kilobytes. */
async function unreclaimableKb(): Promise<number> {
  return Number(/^SUnreclaim:\s+(\d+) kB/m.exec(await readFile("/proc/meminfo", "utf8"))?.[1])
}

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN
const inMs = (numbers: readonly number[]) => `${median(numbers).toFixed(1)} ms`

/** A host with `others` pods, and one more pod to attach and detach. */
class Node implements AsyncDisposable {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace
  readonly #station: Station
  readonly adds: number[] = []
  readonly dels: number[] = []
  readonly addresses = new Set<string>()

  private constructor(host: HostNamespace, pod: ContainerNamespace, station: Station) {
    this.host = host
    this.pod = pod
    this.#station = station
  }

  static async create(): Promise<Node> {
    const host = await HostNamespace.create()
    const station = Station.open(host)
    const pods = await Promise.all(Array.from({ length: others }, () => host.addContainer()))
    for (const [at, pod] of pods.entries()) await station.run([jobsOf("ADD", pod, 20_000 + at)])
    const node = new Node(host, await host.addContainer(), station)
    await node.pass() // creates the objects that stay on purpose
    for (const kept of [node.adds, node.dels]) kept.length = 0
    node.addresses.clear()
    return node
  }

  /** Runs ADD and DEL. Records the duration of each in milliseconds. */
  async pass(): Promise<void> {
    const added = (await this.#station.run([jobsOf("ADD", this.pod, 8080)])).outcomes[0] ?? []
    const result = JSON.parse(added.at(-1)?.stdout ?? "") as PluginResult
    const deleted = (await this.#station.run([jobsOf("DEL", this.pod, 8080, result)])).outcomes[0] ?? []
    const took = (outcomes: typeof added) => outcomes.reduce((all, { ms }) => all + ms, 0)
    this.adds.push(took(added))
    this.dels.push(took(deleted))
    this.addresses.add(result.ips[0]?.address ?? "")
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#station[Symbol.asyncDispose]()
    await this.host[Symbol.asyncDispose]()
  }
}

/**
 * Returns the time of ADD and DEL on the used host divided by the time on a new host, for the compared passes since
 * `since`.
 */
function ratiosOf(old: Node, fresh: Node, since: number): string {
  const ratio = (ofOld: readonly number[], ofFresh: readonly number[]) => (median(ofOld) / median(ofFresh)).toFixed(2)
  return `ADD ${ratio(old.adds.slice(since), fresh.adds)}, DEL ${ratio(old.dels.slice(since), fresh.dels)}`
}

testWith(
  ["ifb", "tbf", "nf_tables"],
  `${passes} ADDs and DELs of a pod beside ${others} others leave the host as large as it was`,
  async () => {
    await buildStation()
    await using node = await Node.create()
    const { host, pod } = node
    const [before, inside, first] = [await takeSnapshot(host), await takeSnapshot(pod), await sizesOf(host)]

    const slabs: number[] = []
    const ratios: string[] = []
    for (let done = 0; done < passes; ) {
      await using fresh = await Node.create()
      let leastSlab = Number.POSITIVE_INFINITY
      for (const end = done + stretch; done < end; done++) {
        await node.pass()
        if (done % compared === 0) await fresh.pass()
        if (done % 30 === 0) leastSlab = Math.min(leastSlab, await unreclaimableKb())
      }
      slabs.push(leastSlab)
      ratios.push(ratiosOf(node, fresh, done - stretch))
      expect({ done, ...(await sizesOf(host)) }).toEqual({ done, ...first })
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
      expectUnchanged(inside, await takeSnapshot(pod))
    }
    // The pool assigns the address that has been free for the longest time.
    expect(node.addresses.size).toBe(Math.min(passes, 1021 - others))
    const grown = (slabs.at(-1) ?? 0) - (slabs[0] ?? 0)
    const sizes = `links ${first.links}, rule set ${first.ruleSetElements} elements in ${first.ruleSetBytes} bytes`
    await tellFigure({
      what: `ADD and DEL of one pod beside ${others} (bridge, host-local, tuning, portmap, firewall, bandwidth): all sizes as before`,
      tried: passes,
      held: node.adds.length,
      note:
        `the same from the first ${stretch} to the last: ${sizes}, store ${first.storeFiles} files, index ${first.indexBytes} bytes, ` +
        `/run/cni ${first.runFiles} files with ${first.runBytes} bytes; SUnreclaim ${grown >= 0 ? "+" : ""}${grown} kB; ` +
        `ADD ${inMs(node.adds.slice(0, stretch))} in the first ${stretch}, ${inMs(node.adds.slice(-stretch))} in the last; ` +
        `DEL ${inMs(node.dels.slice(0, stretch))}, ${inMs(node.dels.slice(-stretch))}; ` +
        `to a new host with as many others, in each ${stretch}: ${ratios.join("; ")}`,
    })
  },
  scaleTimeout(extent(900_000, 10_800_000)),
)
