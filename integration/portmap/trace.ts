import { builtPlugins, type Output, type PluginCall, pluginEnv, TemporaryDirectory } from "../lab/mod.ts"
import type { MappedPod, PortmapLab } from "./portmap-lab.ts"

/** What strace(1) does to a call of the plugin at the `nth` of these system calls. */
export interface Injection {
  verb: "ADD" | "DEL"
  name: string
  /** "error=EIO" or "signal=KILL" */
  effect: string
  nth: number
}

/** Calls portmap under strace(1). Undefined when there is no nth call of that name: then it went through. */
export async function inject(lab: PortmapLab, pod: MappedPod, injection: Injection): Promise<Output | undefined> {
  const { verb, name, effect, nth } = injection
  const { output, text } = await trace(lab, pod, verb, [`trace=${name}`, `inject=${name}:${effect}:when=${nth}`])
  return /INJECTED|killed by SIGKILL/.test(text) ? output : undefined
}

/** How many messages of a call go to the kernel and come from it. */
export async function countMessages(
  lab: PortmapLab,
  pod: MappedPod,
  verb: PluginCall["verb"],
): Promise<{ sent: number; received: number }> {
  const { output, text } = await trace(lab, pod, verb, ["trace=sendto,recvfrom"])
  if (output.exitCode !== 0) throw new Error(`${verb}: ${output.stdout}`)
  return { sent: text.match(/sendto\(/g)?.length ?? 0, received: text.match(/recvfrom\(/g)?.length ?? 0 }
}

/** Calls portmap with the pod's mappings, and answers what strace(1) has seen. */
async function trace(lab: PortmapLab, pod: MappedPod, verb: PluginCall["verb"], expressions: readonly string[]) {
  await using directory = await TemporaryDirectory.create("cni-portmap")
  const file = directory.join("trace")
  const { name: containerId, path: netns } = pod.namespace
  const { ifName } = pod
  const call: PluginCall = { bin: `${builtPlugins}/portmap`, verb, containerId, netns, ifName }
  const args = ["-f", "-qq", "-o", file, ...expressions.flatMap((one) => ["-e", one]), call.bin]
  const input = JSON.stringify({ ...pod.portmap.config, runtimeConfig: { portMappings: pod.mappings } })
  const output = await lab.host.tryExec("strace", args, { env: pluginEnv(call), input })
  return { output, text: await Bun.file(file).text() }
}
