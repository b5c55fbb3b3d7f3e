import type { Builtin } from "../../pkg/invoke/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { type Plugin, serve } from "../../pkg/skel/mod.ts"
import type { Namespace } from "../lab/mod.ts"
import { leftOpen, openInKernel } from "./open-files.ts"

/** A plugin call, by default for interface "eth0" of container "c1". */
export interface ProcessCall {
  readonly verb: "ADD" | "CHECK" | "DEL" | "GC" | "STATUS"
  /** The configuration. Its `type` must be the plugin's name. */
  readonly config: { readonly type: string; readonly [key: string]: unknown }
  readonly pod?: Namespace | undefined
  readonly containerId?: string
  readonly ifName?: string
  /** The plugins to which this plugin may delegate. */
  readonly builtins?: Readonly<Record<string, Builtin>>
  /** Receives the result. If `write` throws, the plugin undoes the ADD, as if the caller had closed the pipe. */
  readonly write?: (text: string) => void
}

export interface Answer {
  readonly exitCode: number
  // biome-ignore lint/suspicious/noExplicitAny: a result or an error, of which tests expect what they know
  readonly json: any
  readonly log: readonly string[]
}

/**
 * Calls a plugin from its sources in this process. The thread is in the host's network namespace during the call.
 * Throws if the plugin leaves a socket or namespace open. Paths refer to files of this machine, so a plugin that writes
 * records needs a temporary directory.
 */
export function callPlugin<C>(host: Namespace, plugin: Plugin<C>, call: ProcessCall): Answer {
  const { verb, config, pod, containerId = "c1", ifName = "eth0", builtins = {}, write } = call
  if (plugin.name !== config.type) throw new Error(`This is "${plugin.name}", and not "${config.type}"`)
  const isOfNetwork = verb === "GC" || verb === "STATUS"
  const attachment = { CNI_CONTAINERID: containerId, CNI_IFNAME: ifName, ...(pod && { CNI_NETNS: pod.path }) }
  const env = { CNI_COMMAND: verb, CNI_PATH: "/nowhere", ...(isOfNetwork ? {} : attachment) }
  const stdin = new TextEncoder().encode(JSON.stringify(config))
  const log: string[] = []
  using namespace = Netns.open(host.path)
  const before = openInKernel()
  const reply = namespace.run(() =>
    serve(verb === "DEL" ? withoutMark(plugin) : plugin, {
      env,
      stdin: () => stdin,
      log: (line) => log.push(line),
      builtinsOn: () => builtins,
      ...(write && { write }),
    }),
  )
  const left = leftOpen(before)
  if (left.length > 0) throw new Error(`${verb} of ${plugin.name} has left open: ${left.join(", ")}`)
  return { exitCode: reply.exitCode, json: reply.stdout === "" ? undefined : JSON.parse(reply.stdout), log }
}

/** Returns the plugin without `restore`, with which DEL would write a mark to this machine's /run/cni. */
function withoutMark<C>(plugin: Plugin<C>): Plugin<C> {
  const { restore: _, ...rest } = plugin as Plugin<C> & { restore?: unknown }
  return rest as Plugin<C>
}

/** Throws an error. As `write` of a call, this function makes the plugin undo the ADD. */
export function refuseAnswer(): never {
  throw new Error("no reader")
}
