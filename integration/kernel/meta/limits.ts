import { afterAll, afterEach, beforeAll, expect } from "bun:test"
import { createHash } from "node:crypto"
import { bandwidth } from "../../../meta/bandwidth/main.ts"
import { type ContainerNamespace, HostNamespace, type Namespace } from "../../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall } from "../in-process.ts"

export const needs = ["ifb", "tbf"] as const
export const both = { ingressRate: "8M", egressRate: "16M" }
export const inside = { ...both, shapeIn: "container" }
export const subnets = { shapedSubnets: ["10.9.0.0/16", "fd00:1::/56"] }

export let host: HostNamespace
export let pod: ContainerNamespace
/** Creates a host with a container for the tests of a file, and deletes their links after each test. */
export function useHost(): void {
  beforeAll(async () => {
    host = await HostNamespace.create()
    pod = await host.addContainer()
    for (const where of [host, pod])
      await where.exec("tc", "qdisc add dev lo root handle 99: bfifo limit 4242".split(" "))
  })
  afterAll(() => host[Symbol.asyncDispose]())
  afterEach(async () => {
    for (const where of [host, pod])
      for (const { ifname } of await where.json<{ ifname?: string }[]>("ip", ["-j", "link"]))
        if (ifname !== undefined && ifname !== "lo") await where.tryExec("ip", ["link", "del", ifname])
  })
}

/** Creates a veth pair between the host and the container, by default "veth1" and "eth0". */
export async function connect(port = "veth1", ifName = "eth0", alias = `lab/c1/${ifName}`): Promise<void> {
  await host.exec("ip", ["link", "add", port, "mtu", "1400", "type", "veth", "peer", "name", ifName, "netns", pod.name])
  await host.exec("ip", ["link", "set", port, "alias", alias])
}

export const prevResultOf = (port: string, ifName: string) => ({
  cniVersion: "1.1.0",
  interfaces: [{ name: port }, { name: ifName, sandbox: pod.path }],
  ips: [{ address: "10.1.0.2/16", interface: 1 }],
})

export function configOf(keys: object, port = "veth1", ifName = "eth0") {
  return { cniVersion: "1.1.0", name: "lab", type: "bandwidth", prevResult: prevResultOf(port, ifName), ...keys }
}

export function call(verb: ProcessCall["verb"], keys: object, more: Partial<ProcessCall> = {}): Answer {
  return callPlugin(host, bandwidth, { verb, config: configOf(keys), pod, ...more })
}

/** Calls the bandwidth plugin and returns the result. Throws if the call fails or logs a line. */
export function done(verb: ProcessCall["verb"], keys: object, more: Partial<ProcessCall> = {}): Answer["json"] {
  const answer = call(verb, keys, more)
  expect(answer).toMatchObject({ exitCode: 0, log: [] })
  return answer.json
}

/** Runs ADD, and CHECK with its result. */
export function add(keys: object): Answer["json"] {
  const result = done("ADD", keys)
  done("CHECK", { ...keys, prevResult: result })
  return result
}

export const upstreamName = (containerId: string) =>
  `bwp${createHash("sha512").update(`lab${containerId}`).digest("hex").slice(0, 12)}`
export const ownName = (owner: string) => `bwp${createHash("sha256").update(owner).digest("hex").slice(0, 12)}`
export const ifb = upstreamName("c1")

/** Returns all qdiscs, classes, filters and ifb devices of a namespace, as lines. */
export async function shown(where: Namespace = host): Promise<string[]> {
  const links = await where.json<Record<string, unknown>[]>("ip", ["-d", "-j", "link"])
  const lines: string[] = []
  for (const { ifname, mtu, txqlen, ifalias, flags, linkinfo } of links) {
    const up = String(flags).includes("UP") ? " up" : ""
    const isIfb = (linkinfo as { info_kind?: string } | undefined)?.info_kind === "ifb"
    if (isIfb) lines.push(`${ifname} mtu ${mtu} txqlen ${txqlen}${up} ${ifalias}`)
  }
  const names = links.flatMap(({ ifname }) => (ifname === undefined || ifname === "lo" ? [] : String(ifname)))
  // One `tc` process answers all requests. The output for "lo" separates the answers.
  const places = names.flatMap((name) =>
    ["qdisc show", "class show", "filter show", "filter show ingress"].map((words) => [name, words] as const),
  )
  const batch = places.map(([name, words]) => `${words} dev ${name}\nqdisc show dev lo\n`)
  const { stdout } = await where.exec("tc", ["-batch", "-"], { input: batch.join("") })
  const answers = stdout.split(/qdisc bfifo 99: root refcnt \d+ limit 4242b/)
  const said = places.flatMap(([name, words], at) =>
    (answers[at] ?? "").split("\n").map((line) => `${name} ${words.split(" ")[0]}: ${line}`),
  )
  const isOfKernel = (line: string) =>
    / noqueue| mq |pfifo|random type|divisor|u32 chain 0 $|: $|class tbf|: index/.test(line)
  const plain = (line: string) =>
    line
      .replace(/\s+/g, " ")
      .replace(/(qdisc|filter|class): \1 /, "$1 ")
      .replace(/ chain 0 fh .*(flowid \S+) not_in_hw| (bfifo|leaf) \w+:| refcnt \d+| -{9,}/, " $1$2")
      .replace(/(default \w+) .*/, "$1")
      .replace(/(\w) +/g, "$1 ")
      .trim()
  return [...lines, ...said.map(plain).filter((line) => !isOfKernel(`${line} `))]
}

/** Returns the lines of a filter that redirects all received packets of a link to the ifb device. */
export const redirected = (link: string, priority = 1, parent = "ffff:") => [
  `${link} filter parent ${parent} protocol all pref ${priority} u32 flowid 1:1`,
  `${link} filter: match 00000000/00000000 at 0`,
  `${link} filter: action order 1: mirred (Egress Redirect to device ${ifb}) stolen`,
]
