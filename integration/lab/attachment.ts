import { join } from "node:path"
import type { HostNamespace } from "./host-namespace.ts"
import type { ContainerNamespace } from "./namespace.ts"
import { type PluginCall, type PluginOutput, runPlugin } from "./run-plugin.ts"
import type { Change } from "./snapshot/diff.ts"

/** The directory of the tested plugins: `CNI_TEST_PLUGINS`, by default the output of `npm run build`. */
export const builtPlugins = process.env.CNI_TEST_PLUGINS ?? join(import.meta.dir, "../../dist/bin")

/** The newest version of the specification. Tests use this version unless they are about versions. */
export const newest = "1.1.0"

/** Returns a bridge network with host-local addresses in 10.22.0.0/16. `keys` replace or add top-level keys. */
export function bridgeNetwork(keys: object = {}): Record<string, unknown> & { ipam: Record<string, unknown> } {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }]] }
  return { cniVersion: newest, name: "lab", type: "bridge", bridge: "br-lab", ipam, ...keys }
}

/** A container's attachment to a network, with the verbs as a runtime calls them. */
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

  /** Returns the same attachment on another host, such as the host after a restart. */
  on(host: HostNamespace): Attachment {
    return new Attachment(host, this.#pod, this.config, this.#call)
  }

  run(verb: PluginCall["verb"], keys: object = {}, call: Partial<PluginCall> = {}): Promise<PluginOutput> {
    return runPlugin(this.#host, { ...this.#call, verb, config: { ...this.config, ...keys }, ...call })
  }

  /** Runs ADD and returns its result. Throws if ADD fails. */
  async add(keys: object = {}): Promise<PluginResult> {
    return (await succeed(this.run("ADD", keys))).json as PluginResult
  }

  async check(prevResult: object, keys: object = {}): Promise<PluginOutput> {
    return this.run("CHECK", { ...keys, prevResult })
  }

  /** Runs DEL. Throws if DEL fails. */
  async del(keys: object = {}, call: Partial<PluginCall> = {}): Promise<void> {
    await succeed(this.run("DEL", keys, call))
  }
}

/** An ADD result of version 0.3.0 or later. */
export interface PluginResult {
  cniVersion: string
  interfaces: { name: string; mac: string; mtu?: number; sandbox?: string }[]
  ips: { address: string; gateway?: string; interface?: number; version?: string }[]
  routes?: { dst: string; gw?: string }[]
  dns?: object
}

export interface PluginError {
  cniVersion: string
  code: number
  msg: string
  details?: string
}

/** Waits for the end of a plugin call and returns its output. Throws with the whole output if the call failed. */
export async function succeed(call: Promise<PluginOutput>): Promise<PluginOutput> {
  const output = await call
  if (output.exitCode !== 0) throw new Error(`exit code ${output.exitCode}: ${output.stdout}\n${output.stderr}`)
  return output
}

/** The valid error codes below 100: those of the specification, and 0 and 8 of the reference plugins. */
const reserved = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 50, 51]

/** Waits for a plugin call that must fail. Returns the error object, which must be its only output on stdout. */
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
 * Reports whether a change is one that a plugin leaves on purpose: host-local keeps its position in the pool, its lock
 * and its index; host-device keeps the directory of its records. Returns false for changes of leases and records.
 */
export function isAllocationTrace({ section, line }: Change): boolean {
  if (line === "/run/cni/host-device/") return true
  return section.startsWith("/var/lib/cni") && !/\/networks\/[^/]+\/[0-9a-f.:]+\s/.test(line)
}

/**
 * Reports whether a change creates or configures the bridge "br-lab". A failed ADD leaves the bridge, because other
 * containers may use it.
 */
export function isSharedBridge({ section, sign, line }: Change): boolean {
  return (sign === "+" || section === "sysctls") && /\bbr-lab\b/.test(line)
}
