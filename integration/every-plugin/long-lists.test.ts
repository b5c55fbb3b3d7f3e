import { expect, test } from "bun:test"
import { Attachment, builtPlugins, HostNamespace, type Namespace, type PluginResult, pluginEnv } from "../lab/mod.ts"

/** The limit of the address space in bytes, more than four times what ADD uses. */
const LIMIT = 48 << 20
const COUNT = 100_000

/** Adds many routes to the main table of a namespace, as a routing daemon does. */
async function addRoutes(namespace: Namespace, device: string): Promise<void> {
  const lines = Array.from({ length: COUNT }, (_, at) => {
    const net = `${32 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}.0/24`
    return `route add ${net} dev ${device} proto bird`
  })
  await namespace.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
}

const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/24" }]], routes: [{ dst: "0.0.0.0/0" }] }
const networks = [
  { cniVersion: "1.1.0", name: "lab", type: "bridge", bridge: "br-lab", isDefaultGateway: true, ipMasq: true, ipam },
  { cniVersion: "1.1.0", name: "lab", type: "ptp", ipMasq: true, ipam },
]

test.each(networks)(
  "$type: with a hundred thousand routes on the host and in the container, CHECK, ADD and DEL do with little memory [S65]",
  async (config) => {
    await using host = await HostNamespace.create()
    const [router, other] = [await host.addContainer(), await host.addContainer()]
    await host.exec("ip", ["link", "add", "uplink", "up", "type", "veth", "peer", "name", "peer"])
    const attachment = new Attachment(host, router, config)
    const prevResult: PluginResult = await attachment.add()
    await addRoutes(host, "uplink")
    await addRoutes(router, "eth0")
    const limited = (verb: "ADD" | "CHECK" | "DEL", pod: typeof router, keys: object = {}) => {
      const call = {
        bin: `${builtPlugins}/${config.type}`,
        verb,
        containerId: pod.name,
        netns: pod.path,
        ifName: "eth0",
      }
      const input = JSON.stringify({ ...config, ...keys })
      return host.tryExec("prlimit", [`--as=${LIMIT}`, call.bin], { env: pluginEnv(call), input })
    }
    expect(await limited("CHECK", router, { prevResult })).toMatchObject({ exitCode: 0, stdout: "" })
    expect((await limited("ADD", other)).exitCode).toBe(0)
    expect(await limited("DEL", other)).toMatchObject({ exitCode: 0, stdout: "" })
    // CHECK also finds that one of many routes is missing.
    await router.exec("ip", ["route", "delete", "default"])
    const missing = await limited("CHECK", router, { prevResult })
    expect(missing.stdout).toContain("expected default via 10.22.0.1")
  },
)
