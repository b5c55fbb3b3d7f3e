import { join } from "node:path"
import {
  builtPlugins,
  type ContainerNamespace,
  type HostNamespace,
  type Output,
  pluginRow,
  programEnv,
} from "../lab/mod.ts"

const tool = join(builtPlugins, "../cni")
const confDir = "/run/cni/conf"

const bridge = (name: string, subnet: string, subnet6: string, keys: object = {}) => ({
  type: "bridge",
  bridge: `br-${name}`,
  isDefaultGateway: true,
  hairpinMode: true,
  ipMasq: true,
  ipam: { type: "host-local", ranges: [[{ subnet }], [{ subnet: subnet6 }]] },
  ...keys,
})
const tuning = { type: "tuning", sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" }, mtu: 1400 }
const portmap = { type: "portmap", capabilities: { portMappings: true } }
const firewall = { type: "firewall", ingressPolicy: "same-bridge" }
const iptables = { backend: "iptables" }

/**
 * Networks for one container each. Together the networks keep every kind of state: in nf_tables, iptables and files.
 */
const chains: Readonly<Record<string, readonly object[]>> = {
  web: [bridge("web", "10.21.0.0/24", "fd00:21::/64", { macspoofchk: true }), tuning, portmap, firewall],
  old: [
    bridge("old", "10.22.0.0/24", "fd00:22::/64", { ipMasqBackend: "iptables" }),
    tuning,
    { ...portmap, ...iptables },
    { ...firewall, ...iptables },
  ],
  line: [
    {
      type: "ptp",
      ipMasq: true,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.23.0.0/24" }], [{ subnet: "fd00:23::/64" }]],
        routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
      },
    },
    { ...portmap, ...iptables },
  ],
  over: [
    {
      type: "flannel",
      subnetFile: `${confDir}/subnet.env`,
      delegate: { bridge: "br-over", isDefaultGateway: true },
    },
  ],
  card: [{ type: "host-device", device: "dev0", ipam: { type: "host-local", ranges: [[{ subnet: "10.25.0.0/24" }]] } }],
  twin: [{ type: "macvlan", master: "uplink", ipam: { type: "host-local", ranges: [[{ subnet: "10.26.0.0/24" }]] } }],
}

export const networkNames: readonly string[] = Object.keys(chains)

/** Writes the configurations of the networks on a host, and creates the links that the plugins need. */
export async function setUpNetworks(host: HostNamespace): Promise<void> {
  for (const [name, plugins] of Object.entries(chains)) {
    await Bun.write(host.file(`${confDir}/${name}.conflist`), JSON.stringify({ cniVersion: "1.1.0", name, plugins }))
  }
  const subnet = "FLANNEL_NETWORK=10.0.0.0/8\nFLANNEL_SUBNET=10.24.0.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n"
  await Bun.write(host.file(`${confDir}/subnet.env`), subnet)
  await pluginRow("macvlan").setUp?.(host)
}

/** Creates the device that host-device moves to the container `card`. */
export async function addDevice(host: HostNamespace): Promise<void> {
  await host.exec("ip", ["link", "add", "dev0", "address", "0a:00:00:00:25:01", "type", "veth", "peer", "name", "far0"])
}

const portOf = (name: string) => 8080 + networkNames.indexOf(name)

/** Runs the tool for a container of a network, by default `pod-NETWORK`. */
export function call(
  host: HostNamespace,
  verb: "add" | "check" | "del",
  network: string,
  container: ContainerNamespace,
  { id = `pod-${network}`, hostPort = portOf(network) } = {},
): Promise<Output> {
  const where = ["--conf-dir", confDir, "--bin-dir", builtPlugins, "--container-id", id]
  const CAP_ARGS = JSON.stringify({ portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }] })
  return host.exec(tool, [verb, network, container.path, ...where], { env: { ...programEnv, CAP_ARGS } })
}

/** Runs GC of a network, which deletes the objects of deleted containers. */
export function collect(host: HostNamespace, network: string): Promise<Output> {
  return host.exec(tool, ["gc", network, "--auto", "--conf-dir", confDir, "--bin-dir", builtPlugins], {
    env: programEnv,
  })
}
