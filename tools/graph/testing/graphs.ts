import type { Counters } from "../../node/mod.ts"
import type { Graph, Member, Segment } from "../model.ts"

/** Returns counters of received and sent traffic. Each list has packets, bytes and dropped packets. */
export function countersOf(received: readonly number[], sent: readonly number[] = received): Counters {
  const way = ([packets = 0, bytes = 0, dropped = 0]: readonly number[]) => ({
    packets: BigInt(packets),
    bytes: BigInt(bytes),
    dropped: BigInt(dropped),
  })
  return { received: way(received), sent: way(sent) }
}

/** Returns a container's interface with only the required data. */
export function memberOf(title: string, more: Partial<Member> = {}): Member {
  return {
    id: `attachment pods/${title}/eth0`,
    title,
    network: "pods",
    containerId: title,
    ifName: "eth0",
    addresses: [],
    ports: [],
    orphan: [],
    masquerades: false,
    ...more,
  }
}

/** Returns a network with only the required data and these interfaces. */
export function segmentOf(members: readonly Member[], more: Partial<Segment> = {}): Segment {
  return {
    id: "segment ptp pods",
    kind: "network",
    title: "pods",
    caption: "ptp",
    isUp: true,
    isThere: true,
    addresses: [],
    networks: ["pods"],
    masquerades: false,
    ports: 0,
    members,
    ...more,
  }
}

/** The graph of a node with objects of every kind. */
export const some: Graph = {
  uplinks: [
    {
      id: "uplink eth0",
      name: "eth0",
      kind: "device",
      mtu: 1500,
      isUp: true,
      addresses: ["192.0.2.2/24", "2001:db8::2/64"],
      routes: ["default via 192.0.2.1"],
      counters: countersOf([5, 3_100_000, 0], [7, 1200, 1]),
    },
    { id: "uplink eth1", name: "eth1", kind: "vlan", mtu: 1400, isUp: false, addresses: [], routes: [] },
  ],
  segments: [
    segmentOf(
      [
        memberOf("web", {
          containerId: "c1",
          addresses: ["10.85.0.2/24"],
          ports: ["8080→80/tcp"],
          hostEnd: "veth1",
          mtu: 1500,
          isAlive: true,
          masquerades: true,
          counters: countersOf([1, 999, 0], [2, 1000, 2]),
          config: { name: "pods" },
        }),
        memberOf("c2", { orphan: ["lease without namespace"], isAlive: false }),
      ],
      {
        id: "segment cni0",
        kind: "bridge",
        title: "cni0",
        caption: "bridge",
        isUp: false,
        mtu: 1450,
        addresses: ["10.85.0.1/24"],
        networks: ["pods", '<lan> & "more"'],
        masquerades: true,
        ports: 2,
        counters: countersOf([3, 100_000, 0]),
      },
    ),
    segmentOf([memberOf("c3", { network: "lan", addresses: ["192.0.2.9/24"], vlanId: 5, mtu: 1400 })], {
      id: "segment macvlan eth1",
      kind: "parent",
      title: "eth1",
      caption: "macvlan on eth1",
      mtu: 1400,
      networks: ["lan"],
      ports: 1,
      uplink: "uplink eth1",
    }),
    segmentOf(Array.from({ length: 7 }, (_, at) => memberOf(`p${at}`))),
  ],
}
