import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Attachment, addNetwork, parseNetworkList } from "../../pkg/libcni/mod.ts"
import { RouteSocket } from "../../pkg/netlink/mod.ts"
import { type ErrorObject, type JsonObject, toErrorObject } from "../../pkg/types/mod.ts"
import type { Terminal } from "../environment.ts"
import { heldPath, makeNamespace } from "../namespace.ts"
import { copyHost, type HostState, readSysctls } from "./host.ts"
import { addedTo, type NamespaceState, readState } from "./namespace-state.ts"
import { addedRules, readRules } from "./rules.ts"
import { filesWritten, type SealPlan, sealFiles } from "./seal.ts"

/** The input of the process in the private copy, on stdin. */
export interface DryRun {
  readonly host: HostState
  readonly files: SealPlan
  /** The network list, including plugins in the network's directory. */
  readonly list: string
  readonly path: readonly string[]
  readonly attachment: Omit<Attachment, "netns">
  readonly timeoutMs: number | undefined
}

/** The output of the process in the private copy, on stdout. */
export type DryRunAnswer = { readonly error: ErrorObject } | { readonly made: Made }

/** The changes that an ADD would make. */
export interface Made {
  readonly result: JsonObject
  readonly host: NamespaceState
  readonly container: NamespaceState
  readonly sysctls: Readonly<Record<string, { readonly was: string; readonly is: string }>>
  readonly files: readonly string[]
  /** The added nftables rules. Undefined if the program `nft` is not installed. */
  readonly rules: string | undefined
}

/** Runs a real ADD in this process's private namespaces, which end with the process. */
export async function runInside({
  stdin,
  env,
  stderr,
}: Pick<Terminal, "stdin" | "env" | "stderr">): Promise<DryRunAnswer> {
  const { host, files, list, path, attachment, timeoutMs }: DryRun = JSON.parse(await stdin())
  try {
    using sandbox = makeNamespace()
    const netns = heldPath(sandbox)
    const { layers, cacheDir } = sealFiles(files)
    copyHost(host)
    const runtime = { path, cacheDir, env, stderr, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
    using own = RouteSocket.open()
    using inside = sandbox.openRoute()
    const before = { host: readState(own), container: readState(inside), rules: readRules(), sysctls: readSysctls() }
    const result = await addNetwork(runtime, parseNetworkList(encodeUtf8(list)), { ...attachment, netns })
    const rules = readRules()
    const sysctls = Object.entries(readSysctls()).flatMap(([key, is]) => {
      const was = before.sysctls[key] ?? ""
      return was === is ? [] : [[key.replaceAll("/", "."), { was, is }]]
    })
    return {
      made: {
        result: result as unknown as JsonObject,
        host: addedTo(before.host, readState(own)),
        container: addedTo(before.container, readState(inside)),
        sysctls: Object.fromEntries(sysctls),
        files: filesWritten(layers),
        rules: rules === undefined ? undefined : addedRules(before.rules ?? {}, rules),
      },
    }
  } catch (error) {
    return { error: toErrorObject(error, "1.1.0") }
  }
}
