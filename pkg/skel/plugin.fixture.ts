import type { Result } from "../types/mod.ts"
import { type Call, definePlugin, type Plugin } from "./plugin.ts"
import { serve } from "./serve.ts"

/** A plugin for tests that records its calls and answers ADD with one address. */
export class Recorder {
  readonly calls: Call[] = []
  readonly plugin: Plugin<{ fromConfig: unknown }>

  /** `behave` runs in every verb. Tests use it to make a verb fail. */
  constructor(options: { versions?: readonly string[]; result?: Result; behave?: (call: Call) => void } = {}) {
    const record = (call: Call) => {
      this.calls.push(call)
      options.behave?.(call)
    }
    this.plugin = definePlugin({
      name: "recorder",
      ...(options.versions ? { versions: options.versions } : {}),
      config: (_network, { raw }) => ({ fromConfig: raw.key }),
      add(call) {
        record(call)
        return call.answer(options.result ?? oneAddress)
      },
      check: record,
      del: record,
      status: record,
      gc: record,
    })
  }

  get verbs(): string[] {
    return this.calls.map((call) => call.verb)
  }
}

export const oneAddress: Result = { interfaces: [], ips: [{ address: "192.0.2.7/24" }], routes: [], dns: {} }

/** The variables of an attachment. The namespace does not exist, so it cannot be the plugin's own. */
export const attachment = {
  CNI_CONTAINERID: "some-container-id",
  CNI_NETNS: "/run/netns/not-there",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "some;extra;args",
  CNI_PATH: "/some/cni/path",
}

/** The reply of a plugin in `ask`, with its document and the log. */
export interface Answer {
  stdout: string
  exitCode: number
  /** The JSON document on stdout, or `{}` if none exists. */
  json: Record<string, unknown>
  log: string[]
}

/** Serves one call. `env` replaces variables of an attachment; `undefined` removes one. */
export function ask<C>(
  plugin: Plugin<C>,
  env: Record<string, string | undefined>,
  stdin: object | string | (() => Uint8Array) = { cniVersion: "1.1.0", name: "lab" },
): Answer {
  const log: string[] = []
  const text = typeof stdin === "string" ? stdin : JSON.stringify(stdin)
  const read = typeof stdin === "function" ? (stdin as () => Uint8Array) : () => new TextEncoder().encode(text)
  const reply = serve(plugin, { env: { ...attachment, ...env }, stdin: read, log: (line) => log.push(line) })
  return { ...reply, json: reply.stdout === "" ? {} : JSON.parse(reply.stdout), log }
}
