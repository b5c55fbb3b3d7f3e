/**
 * Measures the `cni-agent` of the last build with a fake API server that has few Nodes, and with one that has 5,000
 * Nodes of 15 kB each. Prints the time from the agent's start to the node's range and to all routes, the time from a
 * Node event to the route, and the agent's CPU time and memory in an idle minute. Works in its own namespaces. Needs
 * root.
 *
 *   npm run build && bun integration/agent/testing/measure.ts [NODES…]
 */
import { readFileSync } from "node:fs"
import { nodeObject } from "../../../agent/testing/fake-api.ts"
import { waitFor } from "../../lab/mod.ts"
import { FakeClusterApi } from "./api.ts"
import { Cluster, type ClusterNode } from "./cluster.ts"

/** The size of a Node object in bytes, most of which are names of images. */
const NODE_SIZE = 15_000
const REST_MS = 60_000
const EVENTS = 20
/**
 * The length of a clock tick in /proc/PID/stat, in milliseconds. sysconf(3) returns 100 ticks per second on every Linux
 * that Bun supports.
 */
const TICK_MS = 10

const range = (at: number) => [`10.${at >> 8}.${at & 255}.0/24`, `fd00:10:${at.toString(16)}::/64`]
const address = (at: number) => [`10.99.1.${(at % 200) + 1}`, `fd99::1:${(at % 200) + 1}`]

async function fill({ api }: Cluster, count: number): Promise<void> {
  const put = (at: number) =>
    api.ask("POST", "/api/v1/nodes", nodeObject(`filler-${at}`, range(at), address(at), NODE_SIZE))
  // Skip 10.99.0.0/16, the network of the nodes.
  const numbers = Array.from({ length: count }, (_, at) => at + (at < 99 << 8 ? 0 : 256))
  for (let at = 0; at < count; at += 50) await Promise.all(numbers.slice(at, at + 50).map(put))
}

function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ")
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

function memoryOf(pid: number): string {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  const mb = (key: string) => `${(Number(new RegExp(`${key}:\\s+(\\d+)`).exec(status)?.[1]) / 1024).toFixed(1)} MB`
  return `${mb("VmRSS")}, of which ${mb("RssAnon")} are its own; ${mb("VmHWM")} at most`
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN
const tell = (what: string, value: string) => console.log(`  ${what.padEnd(26)} ${value}`)
const tellTimes = (what: string, times: readonly number[]) =>
  tell(what, `${median(times).toFixed(0)} ms, ${Math.max(...times).toFixed(0)} at most, of ${times.length}`)

/**
 * Starts the agent three times without its file of ranges. Returns the process ID of the third agent, which continues
 * to run.
 */
async function measureStart(node: ClusterNode): Promise<number> {
  const times: number[] = []
  for (let run = 1; ; run++) {
    await node.host.exec("rm", ["-rf", "/run/cni/ranges"])
    const began = performance.now()
    const pid = node.startAgent()
    await node.waitForRanges(range(200 << 8))
    times.push(performance.now() - began)
    if (run === 1) {
      await waitFor(() => node.log.includes("Changed the routes"), "the routes")
      tell("start to all routes", `${(performance.now() - began).toFixed(0)} ms`)
    }
    if (run === 3) {
      tellTimes("start to range", times)
      return pid
    }
    await node.endAgent()
  }
}

/**
 * Measures the time from a Node event to its route. The first event follows an idle time. Each further event follows
 * the route of the previous event.
 */
async function measureEvents({ api }: Cluster, { host }: ClusterNode): Promise<void> {
  const times: number[] = []
  for (let at = 201 << 8; times.length < EVENTS; at++) {
    const began = performance.now()
    await api.ask("POST", "/api/v1/nodes", nodeObject(`event-${at}`, range(at), address(at), NODE_SIZE))
    const probe = `10.${at >> 8}.${at & 255}.9`
    await waitFor(async () => (await host.tryExec("ip", ["route", "get", probe])).stdout.includes("via"), probe)
    times.push(performance.now() - began)
  }
  tellTimes("Node event to its route", times)
}

async function measure(count: number): Promise<void> {
  console.log(`${count} Nodes`)
  await using cluster = await Cluster.start((lan, at) => FakeClusterApi.start(lan, at))
  const node = await cluster.addNode(11)
  await node.host.exec("ip", ["address", "add", "10.99.2.11/16", "dev", "eth0"]) // all gateways are in this network
  await cluster.makeNode(node, range(200 << 8))
  await fill(cluster, count - 1)
  const pid = await measureStart(node)
  await waitFor(async () => (await node.status()).routes?.wanted === 2 * count, "all routes")
  await measureEvents(cluster, node)
  await Bun.sleep(40_000) // the runtime frees memory for half a minute
  const before = cpuMs(pid)
  await Bun.sleep(REST_MS)
  tell("a minute at rest", `${cpuMs(pid) - before} ms of the processor`)
  tell("memory", memoryOf(pid))
}

const counts = process.argv.slice(2).map(Number)
for (const count of counts.length > 0 ? counts : [3, 5_000]) await measure(count)
