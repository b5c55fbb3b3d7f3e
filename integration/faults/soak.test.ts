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
  patient,
  pluginEnv,
  Station,
  takeSnapshot,
  tellFigure,
  testWith,
} from "../lab/mod.ts"

const passes = extent(60, 20_000)
const others = extent(30, 110)
/** After so many passes the host is looked at. */
const stretch = extent(30, 1000)

/** 1021 addresses: the long form goes around them 20 times. */
const chain = [
  {
    type: "bridge",
    ...{ bridge: "br-soak", isDefaultGateway: true, ipMasq: true, hairpinMode: true },
    ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/22" }]] },
  },
  { type: "tuning", sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" }, mtu: 1400, txQLen: 77 },
  { type: "portmap" },
  { type: "firewall", ingressPolicy: "same-bridge" },
  { type: "bandwidth", ingressRate: "80M", egressRate: "80M" },
]

/** The calls of one verb for one pod, in the runtime's order; DEL gets the result of ADD, as runtimes hand it over. */
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

/** How much of everything there is while the pod is not attached. */
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
  // It ends with the highest address that was ever taken.
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

/** Kernel memory that cannot be reclaimed, of the whole machine. */
async function unreclaimableKb(): Promise<number> {
  return Number(/^SUnreclaim:\s+(\d+) kB/m.exec(await readFile("/proc/meminfo", "utf8"))?.[1])
}

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN
const inMs = (numbers: readonly number[]) => `${median(numbers).toFixed(1)} ms`

testWith(
  ["ifb", "tbf", "nf_tables"],
  `${passes} ADDs and DELs of a pod beside ${others} others leave the host as large as it was`,
  async () => {
    await buildStation()
    await using host = await HostNamespace.create()
    await using station = Station.open(host)
    const pods = await Promise.all(Array.from({ length: others }, () => host.addContainer()))
    for (const [at, pod] of pods.entries()) await station.run([jobsOf("ADD", pod, 20_000 + at)])
    const pod = await host.addContainer()
    /** One ADD and DEL; how long the calls of each took. */
    const pass = async () => {
      const added = (await station.run([jobsOf("ADD", pod, 8080)])).outcomes[0] ?? []
      const result = JSON.parse(added.at(-1)?.stdout ?? "") as PluginResult
      const deleted = (await station.run([jobsOf("DEL", pod, 8080, result)])).outcomes[0] ?? []
      const took = (outcomes: typeof added) => outcomes.reduce((all, { ms }) => all + ms, 0)
      return { add: took(added), del: took(deleted), address: result.ips[0]?.address ?? "" }
    }
    await pass() // makes what stays on purpose
    const [before, inside, first] = [await takeSnapshot(host), await takeSnapshot(pod), await sizesOf(host)]

    const adds: number[] = []
    const dels: number[] = []
    const slabs: number[] = []
    const addresses = new Set<string>()
    for (let done = 0; done < passes; ) {
      let leastSlab = Number.POSITIVE_INFINITY
      for (const end = done + stretch; done < end; done++) {
        const { add, del, address } = await pass()
        adds.push(add)
        dels.push(del)
        addresses.add(address)
        if (done % 30 === 0) leastSlab = Math.min(leastSlab, await unreclaimableKb())
      }
      slabs.push(leastSlab)
      expect({ done, ...(await sizesOf(host)) }).toEqual({ done, ...first })
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
      expectUnchanged(inside, await takeSnapshot(pod))
    }
    // An address rests as long as possible.
    expect(addresses.size).toBe(Math.min(passes, 1021 - others))
    const grown = (slabs.at(-1) ?? 0) - (slabs[0] ?? 0)
    const sizes = `links ${first.links}, rule set ${first.ruleSetElements} elements in ${first.ruleSetBytes} bytes`
    await tellFigure({
      what: `ADD and DEL of one pod beside ${others} (bridge, host-local, tuning, portmap, firewall, bandwidth): all sizes as before`,
      tried: passes,
      held: adds.length,
      note:
        `the same from the first ${stretch} to the last: ${sizes}, store ${first.storeFiles} files, index ${first.indexBytes} bytes, ` +
        `/run/cni ${first.runFiles} files with ${first.runBytes} bytes; SUnreclaim ${grown >= 0 ? "+" : ""}${grown} kB; ` +
        `ADD ${inMs(adds.slice(0, stretch))} in the first ${stretch}, ${inMs(adds.slice(-stretch))} in the last; ` +
        `DEL ${inMs(dels.slice(0, stretch))}, ${inMs(dels.slice(-stretch))}`,
    })
  },
  patient(extent(120_000, 7_200_000)),
)
