import { type Json, place } from "./values.ts"

const pool = (subnet: string): Json => ({ type: "host-local", ranges: [[{ subnet }]], routes: [{ dst: "0.0.0.0/0" }] })
const dual: Json = {
  type: "host-local",
  ranges: [[{ subnet: "10.30.0.0/24", rangeStart: "10.30.0.9", gateway: "10.30.0.1" }], [{ subnet: "fd00:30::/64" }]],
  resolvConf: "/etc/resolv.conf",
}
const fixed: Json = {
  type: "static",
  addresses: [{ address: "10.44.0.7/24", gateway: "10.44.0.1" }, { address: "fd00:44::7/64" }],
  routes: [{ dst: "10.9.0.0/16", gw: "10.44.0.2" }],
  dns: { nameservers: ["10.44.0.1"], search: ["a", "b"] },
}
const previous: Json = {
  cniVersion: "1.1.0",
  interfaces: [
    { name: "br-lab", mac: "0a:00:00:00:00:07" },
    { name: "eth0", mac: "0a:00:00:00:00:08", mtu: 1400, sandbox: place.pods[0] },
  ],
  ips: [
    { address: "10.22.0.2/24", gateway: "10.22.0.1", interface: 1 },
    { address: "fd00:22::2/64", interface: 1 },
  ],
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0", gw: "fd00:22::1", mtu: 1300, priority: 7 }],
  dns: { nameservers: ["10.22.0.1"], domain: "lab", search: ["lab"], options: ["ndots:2"] },
}
const ports: Json = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 53, containerPort: 53, protocol: "UDP", hostIP: "10.0.0.1" },
]

/** Valid configurations by plugin, without the keys that every configuration has. */
export const valid: Readonly<Record<string, readonly { [key: string]: Json }[]>> = {
  bridge: [
    { bridge: "br-lab", isGateway: true, ipMasq: true, ipam: pool("10.22.0.0/24") },
    { bridge: "br-dual", isDefaultGateway: true, forceAddress: true, hairpinMode: true, mtu: 1400, ipam: dual },
    {
      bridge: "br-fix",
      ipMasq: true,
      ipMasqBackend: "nftables",
      promiscMode: true,
      ipam: fixed,
      runtimeConfig: { mac: "0a:00:00:00:00:05" },
    },
    { bridge: "br-l2", macspoofchk: true, portIsolation: true, disableContainerInterface: false, ipam: {} },
  ],
  ptp: [
    { ipMasq: true, mtu: 1400, ipam: pool("10.23.0.0/24") },
    { ipam: dual, dns: { nameservers: ["10.0.0.53"] } },
    { ipam: fixed },
  ],
  macvlan: [
    { master: "uplink", ipam: pool("10.26.0.0/24") },
    { master: "uplink", mode: "private", mtu: 1400, bcqueuelen: 100, ipam: dual },
    { ipam: fixed },
  ],
  ipvlan: [
    { master: "uplink", ipam: pool("10.31.0.0/24") },
    { master: "uplink", mode: "l3s", flag: "private", mtu: 1400, ipam: dual },
    { prevResult: previous, linkInContainer: true, ipam: {} },
  ],
  vlan: [
    { master: "uplink", vlanId: 5, ipam: pool("10.32.0.0/24") },
    { master: "uplink", vlanId: 4094, protocol: "802.1ad", mtu: 1400, ipam: dual },
    { master: "eth0", vlanId: 6, linkInContainer: true, ipam: fixed },
  ],
  "host-device": [
    { device: "dev8080", ipam: pool("10.27.0.0/24") },
    { device: "dev8080", hwaddr: "", runtimeConfig: {}, ipam: dual },
    { pciBusID: "0000:99:00.0", ipam: fixed },
  ],
  dummy: [{ ipam: pool("10.29.0.0/24") }, { mtu: 1400, mac: "0a:00:00:00:00:01", ipam: dual }],
  tap: [
    { ipam: pool("10.28.0.0/24") },
    { owner: 1000, group: 1000, multiQueue: true, vnetHdr: true, mtu: 1400, ipam: dual },
    { vnetHdr: true, mac: "0a:00:00:00:00:02", ipam: fixed },
  ],
  flannel: [
    { subnetFile: "/run/cni/flannel-lab.env", delegate: { bridge: "br-fl", isDefaultGateway: true } },
    {
      subnetFile: "/run/cni/flannel-other.env",
      delegate: { type: "ptp" },
      ipam: { type: "host-local", routes: [{ dst: "0.0.0.0/0" }], subnet: "10.1.0.0/24" },
      runtimeConfig: { mac: "0a:00:00:00:00:05" },
    },
    { subnetFile: "/run/cni/flannel-lab.env", delegate: { type: "macvlan", master: "uplink" } },
  ],
  loopback: [{}, { prevResult: previous }],
  "host-local": [
    { ipam: pool("10.24.0.0/29") },
    { ipam: dual, args: { cni: { ips: ["10.30.0.77"] } } },
    {
      ipam: {
        type: "host-local",
        subnet: "10.25.0.0/24",
        rangeStart: "10.25.0.5",
        rangeEnd: "10.25.0.6",
        gateway: "10.25.0.1",
      },
      runtimeConfig: { ips: ["10.25.0.6/24"] },
    },
  ],
  dhcp: [
    { ipam: { type: "dhcp", priority: 5, request: [{ option: "routers" }], provide: [{ option: "12", value: "a" }] } },
    { ipam: { type: "dhcp", daemonSocketPath: "/run/cni/absent.sock", dhcpv6: true, userClass: ["a"], timeout: 1 } },
  ],
  static: [
    { ipam: fixed },
    { ipam: { type: "static" }, runtimeConfig: { ips: ["10.5.0.9/24"] } },
    { ipam: { type: "static" }, args: { cni: { ips: ["fd00::9/64"] } } },
  ],
  bandwidth: [
    { prevResult: previous, ingressRate: 8e6, ingressBurst: "64KiB", runtimeConfig: { bandwidth: { egressRate: 1 } } },
    { prevResult: previous, shapeIn: "container", shapedSubnets: ["10.0.0.0/8"], egressRate: "8Mbit" },
    { prevResult: previous, unshapedSubnets: ["fd00::/8"], runtimeConfig: { bandwidth: { egressRate: 9e6 } } },
    { prevResult: previous },
  ],
  firewall: [
    { prevResult: previous },
    { prevResult: previous, ingressPolicy: "isolated", iptablesAdminChainName: "MY-ADMIN", firewalldZone: "home" },
    { prevResult: previous, backend: "nftables", ingressPolicy: "same-bridge" },
  ],
  portmap: [
    { prevResult: previous, runtimeConfig: { portMappings: ports } },
    {
      prevResult: previous,
      snat: false,
      markMasqBit: 5,
      conditionsV4: ["-d", "10.0.0.0/8"],
      runtimeConfig: { portMappings: ports },
    },
    { prevResult: previous },
  ],
  sbr: [
    { prevResult: previous },
    { prevResult: previous, gateways: ["10.22.0.1"] },
    { prevResult: previous, table: 100 },
  ],
  tuning: [
    { prevResult: previous, sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1", "net.core.somaxconn": "500" } },
    { prevResult: previous, mac: "0a:00:00:00:00:09", mtu: 1300, promisc: true, allmulti: true, txQLen: 77 },
  ],
  vrf: [
    { prevResult: previous, vrfname: "red" },
    { prevResult: previous, vrfName: "blue", table: 77 },
  ],
}
