import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import {
  cachedAttachments,
  parseNetworkList,
  parsePlugin,
  parseSinglePlugin,
  readCache,
} from "../../../pkg/libcni/mod.ts"
import { isCniError } from "../../../pkg/types/mod.ts"
import { TemporaryDirectory } from "../../lab/mod.ts"
import type { Outcome } from "./case.ts"
import { textOf, vary } from "./vary.ts"

const plugin = { type: "bridge", bridge: "br-lab", capabilities: { portMappings: true }, ipam: { type: "host-local" } }
const list = {
  cniVersion: "1.1.0",
  cniVersions: ["1.0.0"],
  name: "lab",
  disableCheck: false,
  plugins: [plugin, { type: "portmap" }],
}
const cached = {
  kind: "cniCacheV1",
  containerId: "pod",
  config: Buffer.from(JSON.stringify(list)).toString("base64"),
  ifName: "eth0",
  networkName: "lab",
  netns: "/run/netns/pod",
  cniArgs: [["IgnoreUnknown", "1"]],
  capabilityArgs: { portMappings: [{ hostPort: 80, containerPort: 80, protocol: "tcp" }] },
  result: { cniVersion: "1.1.0", ips: [{ address: "10.22.0.2/24" }] },
}
const key = { network: "lab", containerId: "pod", ifName: "eth0" }

/**
 * The inputs of the runtime library, which runs on Bun: its cache and networks. `read` makes the library read `bytes`,
 * with `directory` as cache directory if necessary.
 */
const inputs: Readonly<Record<string, { valid: object; read: (directory: string, bytes: Uint8Array) => void }>> = {
  "cache of the runtime": {
    valid: cached,
    read(directory, bytes) {
      writeFileSync(join(directory, "results/lab-pod-eth0"), bytes)
      readCache(directory, key)
      cachedAttachments(directory)
    },
  },
  "list of plugins": { valid: list, read: (_, bytes) => void parseNetworkList(bytes) },
  "plugin of a list": { valid: plugin, read: (_, bytes) => void parsePlugin(bytes) },
  "network of one plugin": { valid: { ...plugin, name: "lab" }, read: (_, bytes) => void parseSinglePlugin(bytes) },
}

/**
 * Makes the library read almost valid inputs, each `times` times. Each read must succeed or throw a protocol error with
 * a message.
 */
export async function readByLibrary(seed: number, times: number): Promise<Outcome> {
  await using directory = await TemporaryDirectory.create("cni-garbage")
  mkdirSync(directory.join("results"))
  const tried: Record<string, number> = {}
  const broken: Outcome["broken"][number][] = []
  for (const [reader, { valid, read }] of Object.entries(inputs)) {
    const bytes = new TextEncoder().encode(JSON.stringify(valid))
    read(directory.path, bytes)
    for (let at = 0; at < times; at++) {
      const [varied = bytes] = vary(seed + at, reader, [bytes])
      try {
        read(directory.path, varied)
      } catch (error) {
        const isReported = isCniError(error) && error.message !== ""
        if (!isReported) broken.push({ case: { kind: "read", reader, bytes: [textOf(varied)] }, why: String(error) })
      }
    }
    tried[reader] = times
  }
  return { tried, broken }
}
