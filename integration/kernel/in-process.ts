import type { Builtin } from "../../pkg/invoke/mod.ts"
import { Netns } from "../../pkg/netns/mod.ts"
import { type Plugin, serve } from "../../pkg/skel/mod.ts"
import type { Namespace } from "../lab/mod.ts"
import { leftOpen, openInKernel } from "./open-files.ts"

/** One call; by default of container "c1", interface "eth0". */
export interface ProcessCall {
  readonly verb: "ADD" | "CHECK" | "DEL" | "GC" | "STATUS"
  /** The type that it names must be the plugin's own name. */
  readonly config: { readonly type: string; readonly [key: string]: unknown }
  /** The container's namespace. */
  readonly pod?: Namespace | undefined
  readonly containerId?: string
  readonly ifName?: string
  /** Plugins that it may delegate to. */
  readonly builtins?: Readonly<Record<string, Builtin>>
  /** Takes the result; throws to act as a caller that closed its end. */
  readonly write?: (text: string) => void
}

/** The answer of a call, parsed, and its log. */
export interface Answer {
  readonly exitCode: number
  // biome-ignore lint/suspicious/noExplicitAny: a result or an error, of which tests expect what they know
  readonly json: any
  readonly log: readonly string[]
}

/**
 * Calls a plugin from its sources in this process, whose thread is in the host's network namespace during the call: no
 * build and no start are needed. Throws if it leaves a socket or a namespace open. Files are those of this process, so
 * a plugin with records needs a directory of the test.
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

/**
 * Returns the plugin without the part that `cni reconcile` calls: DEL would otherwise write its mark to this machine's
 * /run/cni.
 */
function withoutMark<C>(plugin: Plugin<C>): Plugin<C> {
  const { restore: _, ...rest } = plugin as Plugin<C> & { restore?: unknown }
  return rest as Plugin<C>
}

/** A `write` of a caller that does not take the answer, so that the ADD must be undone. */
export function refuseAnswer(): never {
  throw new Error("no reader")
}
