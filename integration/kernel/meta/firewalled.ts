import { afterAll, afterEach, beforeAll, expect } from "bun:test"
import { firewall } from "../../../meta/firewall/main.ts"
import { type ContainerNamespace, HostNamespace, type Namespace } from "../../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall } from "../in-process.ts"

/** An attachment. Number 2 is "c2" with port "veth2", 10.1.0.2 and fd00:1::2, on bridge "br1" of network "net1". */
export interface Firewalled {
  number: number
  policy?: "open" | "same-bridge" | "isolated" | undefined
  name?: string
  bridge?: string
  keys?: object
}

export function configOf({ number, policy = "open", name = "net1", bridge = "br1", keys = {} }: Firewalled) {
  const interfaces = [{ name: bridge }, { name: `veth${number}` }, { name: "eth0", sandbox: "/run/netns/c" }]
  const ips = [`10.1.0.${number}/16`, `fd00:1::${number}/64`].map((address) => ({ address, interface: 2 }))
  const common = { cniVersion: "1.1.0", name, type: "firewall", backend: "nftables", ingressPolicy: policy }
  return { ...common, prevResult: { cniVersion: "1.1.0", interfaces, ips }, ...keys }
}

export let host: HostNamespace
/** The namespace of all containers, which the firewall plugin does not use. */
export let pod: ContainerNamespace
/** Creates a host for the tests of a file, and deletes its rules after each test. */
export function useHost(): void {
  beforeAll(async () => {
    host = await HostNamespace.create()
    pod = await host.addContainer()
  })
  afterEach(async () => {
    await host.exec("nft", ["flush", "ruleset"])
  })
  afterAll(() => host[Symbol.asyncDispose]())
}

export function call(verb: ProcessCall["verb"], spec: Firewalled, more: Partial<ProcessCall> = {}): Answer {
  return callPlugin(host, firewall, { verb, config: configOf(spec), pod, containerId: `c${spec.number}`, ...more })
}

/** Calls the firewall plugin for each attachment. Throws if a call fails or logs a line. */
export function done(verb: ProcessCall["verb"], ...specs: readonly Firewalled[]): void {
  for (const spec of specs) expect(call(verb, spec)).toMatchObject({ exitCode: 0, log: [] })
}

/** Returns the elements of all sets and maps that are not empty, by name. "ports" is the set in the bridge table. */
export async function elements(host: Namespace): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const table of (await host.exec("nft", ["list", "ruleset"])).stdout.split(/^table /m)) {
    for (const [, name = "", list = ""] of table.matchAll(/(?:set|map) (\w+) \{[^{]*?elements = \{([^}]*)\}/g))
      found[table.startsWith("bridge") ? "ports" : name] = list
        .split(",")
        .map((line) => line.trim().replace(/"(net\w*\/c\d+)\/eth0"/, "$1"))
        .sort()
  }
  return found
}

/** Returns the elements that `elements` must return after ADD of `specs`, in the order of the ADDs. */
export function expected(...specs: Firewalled[]): Record<string, string[]> {
  const found: Record<string, string[]> = {}
  const put = (set: string, line: string) => {
    found[set] = [...(found[set] ?? []), line].sort()
  }
  for (const { number, policy, name = "net1", bridge = "br1" } of specs) {
    const owner = `comment ${name}/c${number}`
    put("containers", `10.1.0.${number} ${owner}`)
    put("containers6", `fd00:1::${number} ${owner}`)
    if (policy === "same-bridge") put("same_bridge", `"${bridge}" . "veth${number}" ${owner}`)
    if (policy !== "isolated") continue
    put("isolated", `"${bridge}" . "veth${number}" ${owner}`)
    put("ports", `"veth${number}" ${owner}`)
  }
  for (const bridge of new Set(specs.map(({ bridge = "br1" }) => bridge))) {
    const asked = specs.filter((spec) => (spec.bridge ?? "br1") === bridge).map(({ policy }) => policy)
    const policy = (["isolated", "same-bridge"] as const).find((each) => asked.includes(each))
    if (!policy) continue
    const verdict = policy === "isolated" ? "drop" : "goto admit"
    put("within", `"${bridge}" . "${bridge}" comment "${policy}" : ${verdict}`)
    put("policed", `"${bridge}" comment "${policy}"`)
  }
  return found
}

/** Returns the elements without the comments of bridges, which name the first policy of the bridge. */
export const sameButComments = (found: Record<string, string[]>) =>
  JSON.parse(JSON.stringify(found).replace(/(\\"br\d\\") comment \\"[\w-]+\\"/g, "$1"))
