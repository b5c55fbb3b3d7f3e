import { expect, test } from "bun:test"
import { chmod } from "node:fs/promises"
import { join } from "node:path"
import { startDnsmasq } from "../dhcp/servers.ts"
import { startDaemon } from "../dhcp/site.ts"
import { connect, type Feature, testWith } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

async function findings(lab: NodeLab): Promise<object[]> {
  const { findings, stderr } = await lab.doctor()
  expect(stderr).toBe("")
  return findings
}

const onIpv4 = { type: "host-local", ranges: [[{ subnet: "10.85.0.0/24" }]] }
const dualStack = { type: "host-local", ranges: [[{ subnet: "10.85.0.0/24" }], [{ subnet: "fd85::/64" }]] }
const withDefault = { ...dualStack, routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }] }
const onLan = {
  type: "host-local",
  ranges: [[{ subnet: "10.87.0.0/24", rangeStart: "10.87.0.10", gateway: "10.87.0.254" }]],
}
const bridge = { type: "bridge", bridge: "cni0", isGateway: true, ipam: onIpv4 }
const ptp = { type: "ptp", ipMasq: true, ipam: withDefault }

/** A network without faults. */
interface Healthy {
  readonly plugins: readonly object[]
  /** A kernel feature that the network needs. */
  readonly needs?: Feature
  /** Whether the network can have only one container. */
  readonly isOne?: boolean
}

const networks: Readonly<Record<string, Healthy>> = {
  "bridge, dual stack": { plugins: [{ ...bridge, isDefaultGateway: true, ipMasq: true, ipam: dualStack }] },
  "bridge that is a gateway, without a default route": { plugins: [{ ...bridge, isDefaultGateway: false }] },
  "bridge without a gateway, isolated": { plugins: [{ ...bridge, isGateway: false }] },
  "bridge without addresses": { plugins: [{ type: "bridge", bridge: "cni0" }] },
  "bridge with a VLAN": { plugins: [{ ...bridge, vlan: 100 }], needs: "vlan_filtering" },
  "bridge with isolated ports": { plugins: [{ ...bridge, portIsolation: true }] },
  "bridge that checks MACs": { plugins: [{ ...bridge, macspoofchk: true }], needs: "nf_tables_bridge" },
  "bridge with DNS servers behind the default route": {
    plugins: [{ ...bridge, isDefaultGateway: true, dns: { nameservers: ["10.85.0.1", "192.0.2.53"] } }],
  },
  "bridge, tuned": {
    plugins: [
      { ...bridge, isDefaultGateway: true },
      { type: "tuning", mtu: 1300, mac: "02:00:00:00:85:01" },
    ],
  },
  "bridge with firewall": { plugins: [{ ...bridge, isDefaultGateway: true }, { type: "firewall" }] },
  "bridge with a policy": {
    plugins: [
      { ...bridge, isDefaultGateway: true, hairpinMode: true },
      { type: "firewall", ingressPolicy: "same-bridge" },
    ],
  },
  "bridge with limits on what containers get": {
    plugins: [
      { ...bridge, isDefaultGateway: true },
      { type: "bandwidth", ingressRate: 1e6, ingressBurst: 1e6 },
    ],
    needs: "tbf",
  },
  "bridge with limits for some addresses": {
    plugins: [
      { ...bridge, isDefaultGateway: true },
      { type: "bandwidth", ingressRate: 1e6, ingressBurst: 1e6, shapedSubnets: ["192.0.2.0/24"] },
    ],
    needs: "tbf",
  },
  "bridge with bandwidth": {
    plugins: [
      { ...bridge, isDefaultGateway: true },
      { type: "bandwidth", egressRate: 1e6, egressBurst: 1e6 },
    ],
    needs: "ifb",
  },
  "bridge with bandwidth in the container": {
    plugins: [
      { ...bridge, isDefaultGateway: true },
      { type: "bandwidth", shapeIn: "container", ingressRate: 1e6, egressRate: 1e6 },
    ],
    needs: "ifb",
  },
  "bridge with sbr": { plugins: [{ ...bridge, isDefaultGateway: true, ipam: dualStack }, { type: "sbr" }] },
  "bridge with vrf": {
    plugins: [
      { ...bridge, isDefaultGateway: true, ipam: dualStack },
      { type: "vrf", vrfname: "blue" },
    ],
    needs: "vrf",
  },
  "ptp, dual stack": { plugins: [ptp] },
  "ptp with a smaller MTU": { plugins: [{ ...ptp, mtu: 1400 }] },
  "ptp with sbr": { plugins: [ptp, { type: "sbr" }] },
  macvlan: { plugins: [{ type: "macvlan", master: "up0", ipam: onLan }], needs: "macvlan" },
  "macvlan with routes": {
    plugins: [
      {
        type: "macvlan",
        master: "up0",
        ipam: { ...onLan, routes: [{ dst: "0.0.0.0/0" }, { dst: "10.99.0.0/16", mtu: 1400, priority: 7 }] },
      },
    ],
    needs: "macvlan",
  },
  "macvlan without addresses": { plugins: [{ type: "macvlan", master: "up0" }], needs: "macvlan" },
  "ipvlan in mode l2": { plugins: [{ type: "ipvlan", master: "up0", ipam: onLan }], needs: "ipvlan" },
  "ipvlan in mode l3": {
    plugins: [{ type: "ipvlan", master: "up0", mode: "l3", ipam: { ...onLan, routes: [{ dst: "0.0.0.0/0" }] } }],
    needs: "ipvlan",
  },
  vlan: { plugins: [{ type: "vlan", master: "up0", vlanId: 5, ipam: onLan }], needs: "vlan", isOne: true },
  tap: { plugins: [{ type: "tap", ipam: onIpv4 }], needs: "tap" },
  dummy: { plugins: [{ type: "dummy", ipam: onIpv4 }], needs: "dummy" },
  "static addresses without a gateway": {
    plugins: [
      {
        type: "bridge",
        bridge: "cni0",
        ipam: { type: "static", addresses: [{ address: "10.85.0.9/32" }, { address: "fd85::9/128" }] },
      },
    ],
  },
}

async function startNode(plugins: readonly object[]): Promise<NodeLab> {
  const lab = await NodeLab.create({ cniVersion: "1.1.0", name: "pods", plugins })
  const uplink =
    "ip link add up0 type veth peer name up0-far; ip link set up0-far up; ip address add 10.87.0.1/24 dev up0; ip link set up0 up; ip route add default via 10.87.0.254"
  await lab.host.exec("sh", ["-ec", uplink])
  return lab
}

for (const [name, { plugins, needs, isOne = false }] of Object.entries(networks)) {
  const run = async () => {
    await using lab = await startNode(plugins)
    await lab.addPod("one")
    const isFixed = isOne || JSON.stringify(plugins).includes('"static"') || JSON.stringify(plugins).includes('"mac"') // only one container can have this address
    if (!isFixed) await lab.addPod("two")
    expect(await findings(lab)).toEqual([])
  }
  const title = `healthy: ${name}: nothing is found`
  if (needs) testWith([needs], title, run)
  else test(title, run)
}

test("healthy: a second interface by Multus, with a default route that the first one has: nothing is found", async () => {
  await using lab = await startNode(podsNetwork.plugins)
  const second = {
    ...bridge,
    bridge: "cni1",
    isDefaultGateway: true,
    ipam: { ...onIpv4, ranges: [[{ subnet: "10.88.0.0/24" }]] },
  }
  await lab.writeNetwork("20-second.conflist", { cniVersion: "1.1.0", name: "second", plugins: [second] })
  const pod = await lab.addPod("one")
  // Multus removes the default route of every interface except the pod's first.
  await lab.cni(["add", "second", pod.path, "--container-id", pod.name, "--ifname", "net1"])
  expect((await pod.exec("ip", ["-br", "link"])).stdout).toContain("net1")
  await pod.exec("sh", ["-ec", "ip route flush default; ip route add default via 10.85.0.1"])
  expect(await findings(lab)).toEqual([])
})

test("healthy: one published port in two networks of a container, and Multus, whose delegates have the port: nothing is found", async () => {
  await using lab = await startNode(podsNetwork.plugins)
  const ipam = { ...onIpv4, ranges: [[{ subnet: "10.88.0.0/24" }]] }
  const second = [{ ...bridge, bridge: "cni1", ipam }, ...podsNetwork.plugins.slice(1)]
  await lab.writeNetwork("20-second.conflist", { cniVersion: "1.1.0", name: "second", plugins: second })
  const pod = await lab.addPod("one")
  const CAP_ARGS = JSON.stringify({
    portMappings: [{ hostPort: lab.lastPort, containerPort: 80, protocol: "tcp" }],
  })
  await lab.cni(["add", "second", pod.path, "--container-id", pod.name, "--ifname", "net1"], { CAP_ARGS })
  await pod.exec("sh", ["-ec", "ip route flush default; ip route add default via 10.85.0.1"])
  const delegates = [{ plugins: podsNetwork.plugins }]
  const multus = { cniVersion: "1.0.0", name: "multus-cni-network", plugins: [{ type: "multus", delegates }] }
  await lab.useOwnPlugins(async (directory) => {
    const says = "meta-plugin that delegates to other CNI plugins\nCNI protocol versions supported: 0.1.0, 1.0.0, 1.1.0"
    await Bun.write(join(directory, "multus"), `#!/bin/sh\ncat >&2 <<'END'\n${says}\nEND\n`)
    await chmod(join(directory, "multus"), 0o755)
  })
  const record = {
    ...{ kind: "cniCacheV1", containerId: pod.name, ifName: "eth0", networkName: multus.name, netns: pod.path },
    config: Buffer.from(JSON.stringify(multus)).toString("base64"),
    capabilityArgs: JSON.parse(CAP_ARGS),
  }
  const file = `/var/lib/cni/results/${multus.name}-${pod.name}-eth0`
  await Bun.write(lab.host.file(file), JSON.stringify(record))
  await lab.host.exec("sh", ["-ec", `cd /var/lib/cni; mkdir -p multus/results; mv results/[ps]* multus/results`])
  expect(await findings(lab)).toEqual([])
  const port = { hostPort: lab.lastPort, containerPort: 80, protocol: "tcp" }
  const shown = JSON.parse((await lab.cni(["ps", "--json"])).stdout) as Record<string, unknown>[]
  expect(
    shown.map(({ network, ports, standbyPorts, unservedPorts }) => ({ network, ports, standbyPorts, unservedPorts })),
  ).toEqual([
    { network: multus.name, ports: [], standbyPorts: undefined, unservedPorts: undefined },
    { network: "pods", ports: [port], standbyPorts: undefined, unservedPorts: undefined },
    { network: "second", ports: [], standbyPorts: [port], unservedPorts: undefined },
  ])
})

test("healthy: addresses by DHCP, of which a later lease may give others: nothing is found", async () => {
  await using lab = await startNode([{ type: "bridge", bridge: "br-lab", ipam: { type: "dhcp" } }])
  const server = await lab.host.addContainer("server")
  await connect({ namespace: lab.host, link: "lan0" }, { namespace: server, link: "eth0", addresses: ["10.1.2.1/24"] })
  await lab.host.exec("sh", [
    "-ec",
    "ip link add br-lab type bridge; ip link set lan0 master br-lab; ip link set br-lab up",
  ])
  await using _server = await startDnsmasq(server, lab.directory.path)
  await using _daemon = await startDaemon(lab.host, ["-timeout", "5s"])
  const pod = await lab.addPod("one")
  expect(await findings(lab)).toEqual([])
  await pod.exec("sh", [
    "-ec",
    "ip address flush dev eth0 scope global; ip address add 10.1.2.77/24 dev eth0; ip route add default via 10.1.2.1",
  ])
  expect(await findings(lab)).toEqual([])
})

test("healthy: gVisor, which takes the addresses of its container, and all frames by a packet socket: nothing is found", async () => {
  await using lab = await startNode(podsNetwork.plugins)
  const pod = await lab.addPod("one")
  await pod.exec("sh", ["-ec", "ip address flush dev eth0"])
  expect(await findings(lab)).not.toEqual([])
  const script =
    "import socket,sys; s=socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind(('eth0', 3)); print('bound', flush=True); sys.stdin.read()"
  const sandbox = Bun.spawn(pod.commandLine(["python3", "-c", script]), { stdin: "pipe", stdout: "pipe" })
  try {
    const { value } = await sandbox.stdout.getReader().read()
    expect(new TextDecoder().decode(value)).toContain("bound")
    expect(await findings(lab)).toEqual([])
  } finally {
    sandbox.kill()
    await sandbox.exited
  }
})
