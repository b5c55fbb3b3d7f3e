#!/usr/bin/env node
/**
 * A plugin that attaches a container to several networks, each by another plugin. The first of `delegates` creates the
 * runtime's interface, the others create `net1`, `net2`, and so on.
 *
 *   { "type": "multus", "delegates": [{ "type": "bridge", ... }, { "type": "macvlan", ... }] }
 */
import type { Call, JsonObject, Result } from "libcni/plugin"
import { CniError, Code, definePlugin, Failures, runPlugin, Undo } from "libcni/plugin"

/** Parses `delegates`, the configurations of other plugins. For DEL and GC, omits invalid ones; else throws code 7. */
function config(_network: object, { verb, raw }: Pick<Call, "verb" | "raw">): JsonObject[] {
  const given = Array.isArray(raw.delegates) ? raw.delegates : []
  const isConfig = (value: unknown): value is JsonObject => typeof (value as JsonObject | null)?.type === "string"
  const delegates = given.filter(isConfig)
  if (verb === "DEL" || verb === "GC" || (given.length > 0 && delegates.length === given.length)) return delegates
  throw new CniError(Code.InvalidNetworkConfig, 'Cannot use "delegates": expected a list of configurations with a type')
}

/** Returns the call of one plugin: its name, its configuration, and the name of the interface that it creates. */
function delegation(call: Call, config: JsonObject, index: number): [type: string, stdin: Uint8Array, ifName: string] {
  const { cniVersion, name, attachments } = call.network
  const valid = attachments === undefined ? {} : { "cni.dev/valid-attachments": attachmentsOf(attachments, index) }
  const request = { ...config, cniVersion, name: index === 0 ? name : `${name}-${index}`, ...valid }
  const ifName = index === 0 ? call.ifName : `net${index}`
  return [String(config.type), new TextEncoder().encode(JSON.stringify(request)), ifName]
}

/** Returns the valid attachments of delegate `index`: this plugin's, with the name of the delegate's interface. */
function attachmentsOf(valid: readonly { containerID: string; ifname: string }[], index: number) {
  return valid.map(({ containerID, ifname }) => ({ containerID, ifname: index === 0 ? ifname : `net${index}` }))
}

function add(call: Call, delegates: JsonObject[]) {
  const undo = new Undo(call.log)
  const all: Result = { interfaces: [], ips: [], routes: [], dns: {} }
  try {
    for (const [index, config] of delegates.entries()) {
      const [type, stdin, ifName] = delegation(call, config, index)
      const { interfaces, ips, routes, dns } = call.delegate.add(type, stdin, ifName)
      undo.defer(`attach ${ifName}`, () => call.delegate.del(type, stdin, ifName))
      const before = all.interfaces.length
      all.interfaces.push(...interfaces)
      all.ips.push(...ips.map((ip) => (ip.interface === undefined ? ip : { ...ip, interface: ip.interface + before })))
      all.routes.push(...routes)
      if (index === 0) all.dns = dns
    }
    return call.answer(all, undo)
  } finally {
    undo[Symbol.dispose]() // undoes nothing once the answer is written
  }
}

/** Runs DEL of all delegates in reverse order, and throws all failures at the end. */
function del(call: Call, delegates: JsonObject[]): void {
  const failures = new Failures()
  const calls = delegates.map((config, index) => delegation(call, config, index)).reverse()
  for (const [type, ...rest] of calls) failures.attempt(`detach ${rest[1]}`, () => call.delegate.del(type, ...rest))
  failures.throwIfAny()
}

/** Runs CHECK, STATUS or GC of each delegate. If one fails, throws its error and skips the others. */
const ask = (verb: "check" | "status" | "gc") => (call: Call, delegates: JsonObject[]) => {
  for (const [index, config] of delegates.entries()) call.delegate[verb](...delegation(call, config, index))
}

await runPlugin(
  definePlugin({ name: "multus", config, add, del, check: ask("check"), status: ask("status"), gc: ask("gc") }),
)
