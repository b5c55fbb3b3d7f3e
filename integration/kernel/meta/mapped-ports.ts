import { afterAll, afterEach, beforeAll, expect } from "bun:test"
import { portmap } from "../../../meta/portmap/main.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall } from "../in-process.ts"

export let host: HostNamespace
export let pod: ContainerNamespace
/** Has the tests of a file a host with a bridge, without rules and with `route_localnet` off after each of them. */
export function useHost(): void {
  beforeAll(async () => {
    host = await HostNamespace.create()
    pod = await host.addContainer()
    const lines = [
      "link add br0 type bridge",
      "address add 10.1.0.1/16 dev br0",
      "address add fd00:1::1/64 dev br0 nodad",
      "link set br0 up",
    ]
    await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  })
  afterEach(async () => {
    await host.exec("sh", ["-c", "nft flush ruleset; sysctl -qw net.ipv4.conf.br0.route_localnet=0"])
  })
  afterAll(() => host[Symbol.asyncDispose]())
}

export const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" }
export const dns = { hostPort: 5353, containerPort: 53, protocol: "udp" }
export const local = { hostPort: 8443, containerPort: 443, protocol: "tcp", hostIP: "192.0.2.1" }

export function configOf(number: number, portMappings: readonly object[], keys: object = {}) {
  const interfaces = [{ name: "br0" }, { name: `veth${number}` }, { name: "eth0", sandbox: pod.path }]
  const ips = [`10.1.0.${number}/16`, `fd00:1::${number}/64`].map((address) => ({ address, interface: 2 }))
  const prevResult = { cniVersion: "1.1.0", interfaces, ips }
  return { cniVersion: "1.1.0", name: "net1", type: "portmap", prevResult, runtimeConfig: { portMappings }, ...keys }
}

/** Container "c2" has 10.1.0.2 and fd00:1::2. */
export function call(
  verb: ProcessCall["verb"],
  number: number,
  mappings: readonly object[],
  keys: object = {},
  more: Partial<ProcessCall> = {},
): Answer {
  return callPlugin(host, portmap, {
    verb,
    config: configOf(number, mappings, keys),
    pod,
    containerId: `c${number}`,
    ...more,
  })
}

export function done(...of: Parameters<typeof call>): void {
  expect(call(...of)).toMatchObject({ exitCode: 0, log: [] })
}

export const sh = async (script: string) => (await host.exec("sh", ["-c", script])).stdout
export const ruleset = async () => (await sh("nft list ruleset")).replace(/packets \d+ bytes \d+/g, "packets 0 bytes 0")
export const localnet = async () => (await sh("sysctl -n net.ipv4.conf.br0.route_localnet")).trim()
/** The rules of iptables' table `nat`, both families. */
export const iptables = async () =>
  (await sh("iptables-save -t nat | grep '^-A'; ip6tables-save -t nat | grep '^-A'; true")).replaceAll(
    pod.path,
    "NETNS",
  )
