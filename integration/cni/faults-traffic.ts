import { expect } from "bun:test"
import type { ContainerNamespace } from "../lab/mod.ts"
import type { Fault } from "./faults-table.ts"
import { type NodeLab, podsNetwork } from "./node-lab.ts"

const endsOf = async ({ host }: NodeLab) =>
  (await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])).map(({ ifname }) => ifname)
const endOf = async (lab: NodeLab) => (await endsOf(lab))[0] ?? ""
/** Classic BPF programs that drop packets (TC_ACT_SHOT): all packets, and ARP packets. */
const dropAll = "bpf da bytecode 1,6_0_0_2"
const dropArp = "bpf da bytecode 4,40_0_0_12,21_0_1_2054,6_0_0_2,6_0_0_4294967295"

/** Adds a tc filter. In `filter`, "_" stands for a space between the numbers of a BPF program. */
async function addFilter(lab: NodeLab, device: string, place: string, filter: string): Promise<void> {
  await lab.host.exec("tc", ["qdisc", "add", "dev", device, "clsact"])
  const words = `filter add dev ${device} ${place} ${filter}`.split(" ").map((word) => word.replaceAll("_", " "))
  await lab.host.exec("tc", words)
}

/** Deletes the clsact qdisc, with its filters, from the host's interfaces. */
const deleteClsact = async (lab: NodeLab) => {
  for (const device of ["cni0", ...(await endsOf(lab))])
    await lab.host.tryExec("tc", ["qdisc", "del", "dev", device, "clsact"])
}

/** Adds a pod to a network that limits outgoing traffic. */
async function addLimited(lab: NodeLab): Promise<void> {
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.87.0.0/24" }]] }
  const bandwidth = { type: "bandwidth", egressRate: 1_000_000, egressBurst: 1_000_000 }
  const plugins = [{ ...podsNetwork.plugins[0], bridge: "cni1", ipam }, bandwidth]
  await lab.writeNetwork("20-second.conflist", { ...podsNetwork, name: "second", plugins })
  await lab.addPod("slow", "second")
}

/** Returns the output of `cni trace` for the pods whose gateway does not answer. */
async function waysOfCutOff(lab: NodeLab, pods: readonly ContainerNamespace[]): Promise<string> {
  const ways: string[] = []
  for (const pod of pods) {
    if ((await pod.tryExec("ping", ["-c1", "-W1", "10.85.0.1"])).exitCode === 0) continue
    ways.push((await lab.cni(["trace", "pods", pod.name, "--to", "10.85.0.1"])).stdout)
  }
  return ways.join("\n")
}

/** Faults of traffic control, which handles packets before and after the packet filter. */
export const faultsOfTraffic: readonly Fault[] = [
  {
    rule: "tc-filter",
    how: "that drops all at the ingress of a container's end",
    severity: "error",
    names: /^a tc filter at "veth[^"]+" \(ingress, pref 7, bpf\) drops all packets$/,
    seed: async (lab, pods) => {
      await addFilter(lab, await endOf(lab), "ingress", `pref 7 ${dropAll}`)
      expect(await waysOfCutOff(lab, pods)).toMatch(
        /^STOP +tc +the tc filter at ingress of "veth[^"]+", pref 7, drops it\nSTOP +end +dropped by traffic control\n$/m,
      )
    },
    words: /^it may be intended; if not, delete it, .*"tc filter show dev [^"]+ (in|e)gress" shows it$/,
    mend: deleteClsact,
  },
  {
    rule: "tc-filter",
    how: "that drops all at the egress of the bridge",
    severity: "error",
    names: /^a tc filter at "cni0" \(egress, pref 7, bpf\), the bridge of 2 containers, drops all packets: /,
    seed: (lab) => addFilter(lab, "cni0", "egress", `pref 7 ${dropAll}`),
    words: /^it may be intended; if not, delete it, .*"tc filter show dev [^"]+ (in|e)gress" shows it$/,
    mend: deleteClsact,
  },
  {
    rule: "tc-filter",
    how: "with a program, at all ends",
    severity: "warning",
    names:
      /^a tc filter at each interface of 2 containers, such as "veth[^"]+" \(ingress, pref 7, bpf\), lets a program decide about the packets that it matches: /,
    seed: async (lab) => {
      for (const end of await endsOf(lab)) await addFilter(lab, end, "ingress", `pref 7 ${dropArp}`)
    },
    words: /^it may be intended; if not, delete it, .*"tc filter show dev [^"]+ (in|e)gress" shows it$/,
    mend: deleteClsact,
  },
  {
    rule: "tc-filter",
    how: "that sends all to another interface, and then to one that is gone",
    severity: "error",
    names:
      /^a tc filter at "veth[^"]+" \(ingress, pref 7, u32\) sends all packets to an interface that does not exist: they are dropped$/,
    seed: async (lab, pods) => {
      await lab.host.exec("ip", ["link", "add", "tap0", "up", "type", "veth", "peer", "tap1"])
      await addFilter(
        lab,
        await endOf(lab),
        "ingress",
        `pref 7 u32 match u32 0 0 action mirred egress redirect dev tap0`,
      )
      const { findings } = await lab.doctor()
      expect(findings.map(({ what }) => what)).toEqual([expect.stringMatching(/ sends all packets to "tap0" instead$/)])
      await lab.host.exec("ip", ["link", "delete", "tap0"])
      expect(await waysOfCutOff(lab, pods)).toMatch(
        /pref 7, sends it to a\s+missing\s+or\s+inactive\s+interface\s+instead\n/,
      )
    },
    words: /^it may be intended; if not, delete it, .*"tc filter show dev [^"]+ (in|e)gress" shows it$/,
    mend: deleteClsact,
  },
  {
    rule: "tc-filter",
    how: "of a limit whose ifb was deleted",
    needs: "ifb",
    severity: "error",
    names:
      /^a tc filter at "veth[^"]+" \(ingress, pref 1, u32\) sends all packets to an interface that does not exist: they are dropped$/,
    seed: async (lab) => {
      await addLimited(lab)
      await lab.host.exec("sh", [
        "-ec",
        "for ifb in $(ip -o link show type ifb | cut -d: -f2); do ip link delete $ifb; done",
      ])
    },
  },
  {
    rule: "missing-limit",
    how: "on what the container sends",
    needs: "ifb",
    severity: "warning",
    names:
      /^"veth[^"]+", the host's end of .* does not limit traffic from the container, but its network sets "egressRate" to 1000000$/,
    seed: async (lab) => {
      await addLimited(lab)
      await lab.host.exec("sh", [
        "-ec",
        "end=$(ip -o link show type veth master cni1 | sed 's/^[0-9]*: //; s/@.*//'); tc qdisc delete dev $end ingress",
      ])
    },
  },
  {
    rule: "queue-drops",
    how: "at the ends of all containers",
    severity: "error",
    names: /^interfaces of 2 containers have the qdisc blackhole, which drops all packets sent through it: /,
    seed: async (lab) => {
      for (const end of await endsOf(lab)) await lab.host.exec("tc", ["qdisc", "add", "dev", end, "root", "blackhole"])
    },
    words:
      /^a fault-injection test may be running; if not, delete the qdisc, .*"(nsenter [^"]+ )?tc qdisc show dev [^"]+" shows it$/,
    mend: async (lab) => {
      for (const end of await endsOf(lab)) await lab.host.exec("tc", ["qdisc", "del", "dev", end, "root"])
    },
  },
  {
    rule: "queue-drops",
    how: "in a container",
    severity: "error",
    names:
      /^interface "eth0" of "pods\/[^"]+" \(pod shop\/web-1\) has the qdisc blackhole, which drops all packets sent through it$/,
    seed: async (lab, pods) => {
      await pods[0]?.exec("tc", ["qdisc", "add", "dev", "eth0", "root", "blackhole"])
      expect(await waysOfCutOff(lab, pods)).toMatch(/^STOP +tc +the qdisc blackhole of "eth0" drops it$/m)
    },
    words:
      /^a fault-injection test may be running; if not, delete the qdisc, .*"(nsenter [^"]+ )?tc qdisc show dev [^"]+" shows it$/,
    mend: (_, pods) => pods[0]?.exec("tc", ["qdisc", "del", "dev", "eth0", "root"]),
  },
  {
    rule: "queue-drops",
    how: "at the uplink",
    severity: "error",
    names: /^the outgoing interfaces of 2 containers have the qdisc blackhole/,
    seed: async ({ host }) => {
      await host.exec("ip", ["link", "add", "out0", "up", "type", "bridge"])
      await host.exec("ip", ["address", "add", "192.0.2.2/24", "dev", "out0"])
      await host.exec("ip", ["route", "add", "default", "via", "192.0.2.1"])
      await host.exec("tc", ["qdisc", "add", "dev", "out0", "root", "blackhole"])
    },
    words:
      /^a fault-injection test may be running; if not, delete the qdisc, .*"(nsenter [^"]+ )?tc qdisc show dev [^"]+" shows it$/,
    mend: ({ host }) => host.exec("tc", ["qdisc", "del", "dev", "out0", "root"]),
  },
]
