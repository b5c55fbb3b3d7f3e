import { type Output, type PluginCall, runTraced } from "../lab/mod.ts"
import type { MappedPod } from "./portmap-lab.ts"

/** The action of strace(1) at the `nth` system call of this name. */
export interface Injection {
  verb: "ADD" | "DEL"
  name: string
  /** The action: "error=EIO" or "signal=KILL". */
  effect: string
  nth: number
}

/** Calls portmap under strace(1). Returns undefined if portmap made fewer than `nth` such calls, and so succeeded. */
export async function inject(pod: MappedPod, injection: Injection): Promise<Output | undefined> {
  const { verb, name, effect, nth } = injection
  const { output, text } = await trace(pod, verb, [`trace=${name}`, `inject=${name}:${effect}:when=${nth}`])
  return /INJECTED|killed by SIGKILL/.test(text) ? output : undefined
}

/** Returns the number of messages that a call sends to the kernel and receives. */
export async function countMessages(
  pod: MappedPod,
  verb: PluginCall["verb"],
): Promise<{ sent: number; received: number }> {
  const { output, text } = await trace(pod, verb, ["trace=sendto,recvfrom"])
  if (output.exitCode !== 0) throw new Error(`${verb}: ${output.stdout}`)
  return { sent: text.match(/sendto\(/g)?.length ?? 0, received: text.match(/recvfrom\(/g)?.length ?? 0 }
}

/** Calls portmap with the pod's mappings, and returns the system calls that strace(1) recorded. */
function trace({ portmap, mappings }: MappedPod, verb: PluginCall["verb"], expressions: readonly string[]) {
  return runTraced(portmap, verb, expressions, { runtimeConfig: { portMappings: mappings } })
}
