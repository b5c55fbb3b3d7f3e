import { readPacket } from "../../../ipam/dhcp/protocol/frames.ts"
import * as captured from "../../../ipam/dhcp/protocol/testing/captured.ts"
import * as go from "../../../ipam/dhcp/rpc/go.fixture.ts"
import { formatRecord } from "../../../ipam/host-local/records.ts"
import { emptyRing, encodeLine, SLOT_BYTES } from "../../../pkg/flight/mod.ts"
import { decodeResult, encodeResult, supportedVersions } from "../../../pkg/types/mod.ts"
import type { HostNamespace } from "../../lab/mod.ts"
import type { ReadCase } from "./case.ts"

const latin1 = (bytes: Uint8Array) => Buffer.from(bytes).toString("latin1")
const ofText = (text: string) => Buffer.from(text).toString("latin1")
const read = (reader: string, ...bytes: readonly string[]): ReadCase => ({ kind: "read", reader, bytes, valid: true })
const json = (reader: string, value: unknown) => read(reader, ofText(JSON.stringify(value)))

const result = {
  cniVersion: "1.1.0",
  interfaces: [
    { name: "br-lab", mac: "0a:00:00:00:00:07" },
    { name: "eth0", mac: "0a:00:00:00:00:08", mtu: 1400, sandbox: "/run/netns/pod" },
  ],
  ips: [{ address: "10.22.0.2/24", gateway: "10.22.0.1", interface: 1 }],
  routes: [{ dst: "0.0.0.0/0", gw: "10.22.0.1", mtu: 1300, priority: 7 }],
  dns: { nameservers: ["10.22.0.1"], domain: "lab", search: ["lab"], options: ["ndots:2"] },
}

/**
 * The D-Bus server's messages to a client that logs in, requests its name, and asks whether firewalld runs, as recorded
 * with `strace -xx dbus-send`.
 */
const welcome =
  "DATA\r\nOK 1234deadbeef\r\n" +
  latin1(
    Uint8Array.fromHex(
      "6c02010109000000010000000f000000 0501750001000000 0801670001730000 04000000 3a312e3300".replace(/\s/g, ""),
    ),
  )
const hasOwner = latin1(
  Uint8Array.fromHex("6c02010104000000020000000f000000 0501750002000000 0801670001620000 01000000".replace(/\s/g, "")),
)
const greeted = (bytes: Uint8Array) => `HTTP/1.0 200 Connected to Go RPC\n\n${latin1(bytes)}`
const called = (bytes: Uint8Array) => `CONNECT /_goRPC_ HTTP/1.0\n\n${latin1(bytes)}`

function payloadOf(frame: Uint8Array): string {
  const packet = readPacket(frame)
  if (packet?.kind !== "udp") throw new Error("a captured frame is no longer read")
  return latin1(packet.payload)
}

function ring(): Uint8Array {
  const line = {
    time: "2026-01-02T03:04:05.678Z",
    plugin: "bridge",
    verb: "ADD",
    ms: 8.25,
    exitCode: 0,
    ips: ["10.1.0.2/24"],
  }
  const bytes = emptyRing().slice(0, 4 * SLOT_BYTES)
  bytes.set(encodeLine(line, 0, SLOT_BYTES), SLOT_BYTES)
  bytes.set(encodeLine({ ...line, changes: ["create veth"] }, 1, SLOT_BYTES), 2 * SLOT_BYTES)
  return bytes
}

const lease = {
  owner: { containerId: "pod", ifName: "eth0" },
  addresses: ["10.1.0.2", "fd00::2"],
  bootId: "4b3f9a52-7f8c-4c5e-9d61-0a5b6c7d8e9f",
  written: [1760000000000000000n, 1760000000000000001n],
  netns: { path: "/run/netns/pod", identity: "4:4026532000" },
}

/** Returns a valid input for each reader except those of the kernel's answers, which are recorded. */
export function seeds(): ReadCase[] {
  return [
    read("D-Bus", welcome + hasOwner),
    ...[go.goAllocateReply, go.goReleaseReply].map((bytes) => read("daemon of dhcp", greeted(bytes))),
    ...[go.goAllocateRequest, go.goReleaseRequest].map((bytes) => read("caller of the daemon of dhcp", called(bytes))),
    read("DHCPv4 server", payloadOf(captured.offer), payloadOf(captured.ack), payloadOf(captured.ack)),
    read("DHCPv6 server", payloadOf(captured.advertise), payloadOf(captured.reply), payloadOf(captured.confirmReply)),
    read(
      "frames for DHCP",
      ...[captured.offer, captured.ack, captured.advertise, captured.reply, captured.routerAdvertisement].map(latin1),
    ),
    read("flight recorder", latin1(ring())),
    read("lease file", "pod\r\neth0"),
    read("index of leases", `${formatRecord(lease)}\n${formatRecord({ ...lease, addresses: ["10.1.0.3"] })}\n`),
    json("backup of tuning", {
      mac: "0a:00:00:00:00:01",
      promisc: false,
      mtu: 1500,
      network: "lab",
      set: { mtu: 1400 },
      sysctl: { "net/ipv4/ip_forward": { was: "0", set: "1" } },
    }),
    json("configuration kept by flannel", {
      name: "lab",
      type: "bridge",
      cniVersion: "1.1.0",
      ipam: { type: "host-local", ranges: [[{ subnet: "10.1.0.0/24" }]] },
    }),
    read(
      "subnet.env",
      "FLANNEL_NETWORK=10.0.0.0/8\nFLANNEL_SUBNET=10.1.0.1/24\nFLANNEL_IPV6_NETWORK=fd00::/48\nFLANNEL_IPV6_SUBNET=fd00::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
    ),
    read(
      "rules of iptables-save",
      '*nat\n:PREROUTING ACCEPT [0:0]\n:CNI-1 - [0:0]\n[1:2] -A PREROUTING -d 10.0.0.0/8 -m comment --comment "name: \\"lab\\" id: \\"a\\"" -j CNI-1\n-A CNI-1 ! -d 224.0.0.0/4 -j MASQUERADE\nCOMMIT\n',
    ),
    ...supportedVersions.map((version) =>
      json("result of a delegate", encodeResult(decodeResult(result, "1.1.0"), version)),
    ),
    json("error of a delegate", { cniVersion: "1.1.0", code: 11, msg: "no", details: "try again" }),
    json("versions of a delegate", { cniVersion: "1.1.0", supportedVersions: ["0.4.0", "1.0.0", "1.1.0"] }),
    ...supportedVersions.map((version) =>
      json("configuration", {
        cniVersion: version,
        name: "lab",
        type: "x",
        ipam: { type: "static" },
        dns: result.dns,
        args: { cni: {} },
        runtimeConfig: {},
        prevResult: encodeResult(decodeResult(result, "1.1.0"), version),
        "cni.dev/valid-attachments": [{ containerID: "a", ifname: "eth0" }],
      }),
    ),
  ]
}

/** Creates an object of every kind on a host, so that the kernel's answers contain every possible part. */
export async function furnish(host: HostNamespace): Promise<void> {
  const rules = [
    "add table ip garbage",
    "add chain ip garbage forward { type filter hook forward priority 0; policy drop; }",
    'add rule ip garbage forward iifname "eth0" ip saddr 10.9.0.0/16 tcp dport 80 counter accept comment "lab/pod/eth0"',
    'add set ip garbage sources { type ipv4_addr; comment "of garbage"; }',
    'add element ip garbage sources { 10.9.0.1 comment "lab/pod/eth0", 10.9.0.2 }',
    "add map ip garbage ports { type inet_proto . inet_service : ipv4_addr . inet_service; }",
    'add element ip garbage ports { tcp . 8080 comment "lab/pod/eth0" : 10.9.0.1 . 80 }',
  ]
  const commands = [
    "ip link add br-garbage up type bridge",
    "ip link set br-garbage type bridge vlan_filtering 1",
    "ip link set br-garbage alias lab/pod/eth0",
    "ip link add v-garbage up master br-garbage type veth peer name w-garbage",
    "bridge vlan add dev v-garbage vid 5-9",
    "bridge vlan add dev v-garbage vid 20 pvid untagged",
    "ip address add 10.9.0.254/24 dev br-garbage",
    "ip address add fd00:9::1/64 dev br-garbage nodad",
    "ip route add 10.10.0.0/16 via 10.9.0.1 metric 7 mtu 1400",
    "ip route add 10.11.0.0/16 nexthop via 10.9.0.1 nexthop via 10.9.0.2",
    "ip -6 route add fd00:10::/64 via fd00:9::2",
    "ip rule add from 10.9.0.0/24 table 100 priority 77",
    "ip neighbour add 10.9.0.1 lladdr 0a:00:00:00:00:01 dev br-garbage",
    "tc qdisc add dev lo root handle 1: htb default 1",
    "tc class add dev lo parent 1: classid 1:1 htb rate 8mbit",
    "tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip dst 10.9.0.0/16 flowid 1:1",
    "iptables -t nat -N CNI-garbage",
    "iptables -t nat -A POSTROUTING -s 10.9.0.1 -m comment --comment lab -j CNI-garbage",
    "iptables -t nat -A CNI-garbage ! -d 224.0.0.0/4 -j MASQUERADE",
  ]
  for (const command of commands) {
    const [file = "", ...args] = command.split(" ")
    await host.tryExec(file, args) // some kernels lack these kinds
  }
  await host.exec("nft", ["-f", "-"], { input: `${rules.join("\n")}\n` })
}
