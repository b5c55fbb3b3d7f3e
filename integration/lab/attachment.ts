import { join } from "node:path"
import type { HostNamespace } from "./host-namespace.ts"
import type { ContainerNamespace } from "./namespace.ts"
import { type PluginCall, type PluginOutput, runPlugin } from "./run-plugin.ts"
import type { Change } from "./snapshot/diff.ts"

/** The plugins that are tested: where `npm run build` puts them, or those of another build. */
export const builtPlugins = process.env.CNI_TEST_PLUGINS ?? join(import.meta.dir, "../../dist/bin")

/** The newest version of the specification, which is what the tests speak unless versions are their subject. */
export const newest = "1.1.0"

/** A bridge network with host-local addresses in 10.22.0.0/16; `keys` replace or add keys at the top. */
export function bridgeNetwork(keys: object = {}): Record<string, unknown> & { ipam: Record<string, unknown> } {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] }
  return { cniVersion: newest, name: "lab", type: "bridge", bridge: "br-lab", ipam, ...keys }
}

/** An attachment of a container to a network, with the verbs as a runtime calls them. */
export class Attachment {
  readonly #host: HostNamespace
  readonly #pod: ContainerNamespace
  readonly #call: Omit<PluginCall, "verb" | "config">
  config: Record<string, unknown>

  constructor(
    host: HostNamespace,
    pod: ContainerNamespace,
    config: Record<string, unknown>,
    call: Partial<PluginCall> = {},
  ) {
    this.#host = host
    this.#pod = pod
    this.config = config
    const bin = join(builtPlugins, String(config.type))
    this.#call = { bin, containerId: pod.name, netns: pod.path, ifName: "eth0", ...call }
  }

  /** The same on another host, such as the one that has been started again. */
  on(host: HostNamespace): Attachment {
    return new Attachment(host, this.#pod, this.config, this.#call)
  }

  run(verb: PluginCall["verb"], keys: object = {}, call: Partial<PluginCall> = {}): Promise<PluginOutput> {
    return runPlugin(this.#host, { ...this.#call, verb, config: { ...this.config, ...keys }, ...call })
  }

  /** ADD that has to succeed; answers the result. */
  async add(keys: object = {}): Promise<PluginResult> {
    return (await succeed(this.run("ADD", keys))).json as PluginResult
  }

  async check(prevResult: object, keys: object = {}): Promise<PluginOutput> {
    return this.run("CHECK", { ...keys, prevResult })
  }

  /** DEL that has to succeed. */
  async del(keys: object = {}, call: Partial<PluginCall> = {}): Promise<void> {
    await succeed(this.run("DEL", keys, call))
  }
}

/** A result from version 0.3.0 on. */
export interface PluginResult {
  cniVersion: string
  interfaces: { name: string; mac: string; mtu?: number; sandbox?: string }[]
  ips: { address: string; gateway?: string; interface?: number; version?: string }[]
  routes?: { dst: string; gw?: string }[]
  dns?: object
}

/** An error object. */
export interface PluginError {
  cniVersion: string
  code: number
  msg: string
  details?: string
}

/** A call that has to succeed. Throws with all that it wrote. */
export async function succeed(call: Promise<PluginOutput>): Promise<PluginOutput> {
  const output = await call
  if (output.exitCode !== 0) throw new Error(`exit code ${output.exitCode}: ${output.stdout}\n${output.stderr}`)
  return output
}

/** Of the codes below 100, which are the specification's: those that it has, and upstream's 0 and 8. */
const reserved = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51]

/** A call that has to fail with exactly one error object on stdout; answers it. */
export async function fail(call: Promise<PluginOutput>): Promise<PluginError> {
  const { exitCode, json, stdout } = await call
  const error = json as PluginError | undefined
  if (exitCode !== 1 || typeof error?.code !== "number" || error.msg === "") {
    throw new Error(`exit code ${exitCode}, stdout ${stdout}`)
  }
  if (error.code < 100 && !reserved.includes(error.code)) throw new Error(`code ${error.code} is not ours to use (#42)`)
  return error
}

/**
 * What is left behind on purpose: by host-local the place in the pool, the lock, and its index, by host-device the directory of its
 * records. No lease and no record is among them.
 */
export function isAllocationTrace({ section, line }: Change): boolean {
  if (line === "/run/cni/host-device/") return true
  return section.startsWith("/var/lib/cni") && !/\/networks\/[^/]+\/[0-9a-f.:]+\s/.test(line)
}

/** Whether a change is what a failed ADD of bridge leaves for other containers: the bridge "br-lab", its addresses and settings. */
export function isSharedBridge({ section, sign, line }: Change): boolean {
  return (sign === "+" || section === "sysctls") && /\bbr-lab\b/.test(line)
}
