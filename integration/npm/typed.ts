/** A consumer's code for compilers: types that must match, and lines that must be refused. */
import * as libcni from "libcni"
import * as plugin from "libcni/plugin"

const runtime: libcni.Runtime = { path: [], cacheDir: "/", env: {}, stderr: () => {}, timeoutMs: 1, lockTimeoutMs: 1 }
// @ts-expect-error: an optional property may be absent, and not undefined
export const loose: libcni.Runtime = { ...runtime, timeoutMs: undefined }

export const attachment: libcni.Attachment = {
  containerId: "c1",
  ifName: "eth0",
  netns: "",
  args: [["IgnoreUnknown", "1"]],
  capabilityArgs: {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    bandwidth: { ingressRate: 1_000_000, ingressBurst: 1_000_000 },
    ipRanges: [[{ subnet: "10.1.0.0/16" }]],
    "io.example/own": { any: "thing" },
  },
}
// @ts-expect-error: a port is a number
export const wrongPort: libcni.CapabilityArgs = { portMappings: [{ hostPort: "8080", containerPort: 80 }] }
// @ts-expect-error: a plugin has a type
export const untyped: libcni.NetworkListConfig = { name: "lab", plugins: [{ bridge: "cni0" }] }

const network: libcni.Network = libcni.parseNetworkList({
  name: "lab",
  cniVersion: "1.1.0",
  plugins: [{ type: "bridge" }],
})

export async function use(): Promise<string | undefined> {
  const result = await libcni.addNetwork(runtime, network, attachment, { undo: true })
  const address: string | undefined = result.ips?.[0]?.address
  const mac: string | undefined = libcni.readResult(result).interfaces[0]?.mac
  await libcni.gcNetwork(runtime, network, async () => [{ containerId: "c1", ifName: "eth0" }])
  const cached = libcni.readCache(runtime.cacheDir, { network: "lab", containerId: "c1", ifName: "eth0" })
  if (cached.state === "valid") return cached.attachment.network
  const { answers } = await libcni.checkEachPlugin(runtime, network, attachment)
  const error: libcni.CniError | undefined = answers[0]?.error
  return address ?? mac ?? error?.details
}

export const own: plugin.Plugin<{ readonly mtu: number }> = plugin.definePlugin({
  name: "own",
  config: (_network, { raw }) => ({ mtu: Number(raw.mtu ?? 1500) }),
  add(call, config) {
    if (config.mtu < 68) throw new plugin.CniError(plugin.Code.InvalidNetworkConfig, "Cannot use mtu")
    return call.answer({ interfaces: [{ name: call.ifName, mtu: config.mtu }], ips: [], routes: [], dns: {} })
  },
  check() {},
  del() {},
  status() {},
  gc(_call, _config, attachments) {
    for (const { containerID, ifname } of attachments) void [containerID, ifname]
  },
})
