import { describe, expect } from "bun:test"
import {
  Attachment,
  type Breakage,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  HostNamespace,
  interfacePlugin,
  linkNames,
  succeed,
  takeSnapshot,
  testBreakages,
  testWith,
} from "../lab/mod.ts"

const { network, dualStack } = interfacePlugin("tap")

type Shown = { address: string; mtu: number; ifalias?: string; flags: string[]; linkinfo: { info_data: object } }
const showTap = async (pod: ContainerNamespace) =>
  (await pod.json<Shown[]>("ip", ["-d", "-j", "link", "show", "eth0"]))[0]

async function attached(keys: object = {}, setUp: (pod: ContainerNamespace) => Promise<unknown> = async () => {}) {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  await setUp(pod)
  const attachment = new Attachment(host, pod, network(keys))
  return { host, pod, attachment, result: await attachment.add() }
}

testWith(
  ["tap"],
  "ADD makes a tap in the container alone, with all that is asked for, its owner's alias, and for the answer its MAC and MTU",
  async () => {
    const keys = { ...dualStack, owner: 4711, group: 4712, multiQueue: true, vnetHdr: true, mtu: 9000 }
    const made = await attached({ ...keys, mac: "0A:00:00:00:00:07" })
    await using host = made.host
    const { pod, result } = made
    expect(await showTap(pod)).toMatchObject({
      address: "0a:00:00:00:00:07",
      mtu: 9000,
      ifalias: `lab/${pod.name}/eth0`,
      flags: expect.arrayContaining(["UP"]),
      linkinfo: {
        info_kind: "tun",
        info_data: { type: "tap", pi: false, vnet_hdr: true, multi_queue: true, persist: true },
      },
    })
    expect((await pod.exec("ip", ["-d", "link", "show", "eth0"])).stdout).toContain("user 4711 group 4712")
    expect(result.interfaces).toEqual([{ name: "eth0", mac: "0a:00:00:00:00:07", mtu: 9000, sandbox: pod.path }])
    expect(result.ips.map(({ address, interface: index }) => [address, index])).toEqual([
      ["10.22.0.2/16", 0],
      ["fd00:22::2/64", 0],
    ])
    expect(await linkNames(host)).toEqual(["lo"])
  },
)

testWith(
  ["tap"],
  "nothing is asked for: no owner, one queue, frames without headers; the same with owner and group",
  async () => {
    for (const keys of [{}, { owner: 1 }, { owner: 1, group: 1 }, { owner: 0, group: 0, mtu: 0, mac: null }]) {
      const made = await attached(keys)
      await using _host = made.host
      expect((await showTap(made.pod))?.linkinfo.info_data).toMatchObject({
        type: "tap",
        pi: false,
        vnet_hdr: false,
        multi_queue: false,
        persist: true,
      })
      await succeed(made.attachment.check(made.result))
    }
  },
)

/** Adds a bridge with a fixed MAC address, which it keeps when its ports change. */
const withBridge = (pod: ContainerNamespace) =>
  pod.exec("ip", ["link", "add", "br0", "address", "0a:00:00:00:00:bb", "type", "bridge"])

describe("CHECK", () => {
  const keys = { owner: 4711, group: 4712, bridge: "br0" }
  for (const [what, says, change, changed] of [
    ["the tap no longer exists", "expected a tun, found none", "link del eth0", {}],
    [
      "there is a device without Ethernet in its place",
      'type of "eth0" failed: expected tap, found tun',
      "",
      { mode: "tun" },
    ],
    ["the owner is another", 'owner of "eth0" failed: expected 4711, found 5', "", { user: 5 }],
    ["there is no group", 'group of "eth0" failed: expected 4712, found none', "", { group: undefined }],
    ["it has many queues", 'multiQueue of "eth0" failed: expected false, found true', "", { multi_queue: true }],
    [
      "it is not a port of the bridge",
      'bridge of "eth0" failed: expected br0, found none',
      "link set eth0 nomaster",
      {},
    ],
    ["the bridge no longer exists", 'bridge of "eth0" failed: expected br0, found none', "link del br0", {}],
    ["the MTU is another", "expected 1500, found 1400", "link set eth0 mtu 1400", {}],
    ["the MAC is another", "found 0a:00:00:00:00:09", "link set eth0 address 0a:00:00:00:00:09", {}],
    ["it is down", "expected up, found down", "link set eth0 down", {}],
    ["an address no longer exists", "expected 10.22.0.2/16", "addr flush dev eth0", {}],
  ] as const) {
    testWith(["tap"], `names it when ${what}`, async () => {
      const made = await attached(keys, withBridge)
      await using _host = made.host
      const { pod, attachment, result } = made
      await succeed(attachment.check(result))
      if (change) await pod.exec("ip", change.split(" "))
      else {
        const device = { mode: "tap", user: 4711, group: 4712, ...changed }
        const words = Object.entries(device).flatMap(([key, value]) =>
          value === undefined ? [] : value === true ? [key] : [key, String(value)],
        )
        await pod.exec("ip", ["link", "del", "eth0"])
        await pod.exec("ip", ["tuntap", "add", "name", "eth0", ...words])
        for (const line of ["link set eth0 up", "addr add 10.22.0.2/16 dev eth0"]) await pod.exec("ip", line.split(" "))
      }
      const [interfaces] = [changed && !change ? [{ ...result.interfaces[0], mac: "" }] : result.interfaces]
      const { msg, details } = await fail(attachment.check({ ...result, interfaces }))
      expect(`${msg}; ${details}`).toContain(says)
    })
  }
})

describe("DEL", () => {
  for (const [what, change] of [
    [
      "of another kind",
      [
        ["link", "del", "eth0"],
        ["link", "add", "eth0", "type", "bridge"],
      ],
    ],
  ] as const) {
    testWith(["tap"], `leaves an interface of that name ${what}`, async () => {
      const made = await attached()
      await using _host = made.host
      for (const line of change) await made.pod.exec("ip", line)
      const before = await takeSnapshot(made.pod)
      await made.attachment.del()
      expectUnchanged(before, await takeSnapshot(made.pod))
    })
  }

  for (const [what, change] of [
    ["a tap that says nothing of its owner, as upstream's", ["link", "set", "eth0", "alias", ""]],
    ["a tap that was renamed", ["link", "set", "eth0", "name", "net9"]],
  ] as const) {
    testWith(["tap"], `removes ${what}, and of its bridge nothing`, async () => {
      const made = await attached({ bridge: "br0" }, withBridge)
      await using _host = made.host
      await made.pod.exec("ip", change)
      await made.attachment.del()
      expect(await linkNames(made.pod)).toEqual(["lo", "br0"])
    })
  }
})

const breakages: Breakage[] = [
  {
    step: "there is no such bridge in the container",
    keys: { bridge: "br0" },
    setUp: (host) => host.exec("ip", ["link", "add", "br0", "type", "bridge"]),
    code: 7,
    says: 'Cannot find the bridge "br0" in "/run/netns/',
    everyAdd: false,
  },
  {
    step: "the link of the bridge's name is not a bridge",
    keys: { bridge: "lo" },
    code: 7,
    says: '"lo" is not a bridge',
    everyAdd: false,
  },
  {
    step: "the host has no /dev/net/tun",
    keys: {},
    setUp: (host) => host.exec("mount", ["-t", "tmpfs", "cni-test", "/dev/net"]),
    code: 999,
    says: 'Cannot open "/dev/net/tun": load the module "tun"',
    everyAdd: true,
  },
  {
    step: "/dev/net/tun is another device",
    keys: {},
    setUp: (host) => host.exec("mount", ["--bind", "/dev/null", "/dev/net/tun"]),
    code: 999,
    says: "ioctl TUNSETIFF: Inappropriate ioctl for device",
    everyAdd: false,
  },
  {
    step: "the SELinux context is not valid",
    keys: { selinuxContext: "no:such:context" },
    code: 7,
    says: 'Cannot use "selinuxContext" "no:such:context"',
    everyAdd: true,
  },
  {
    step: "the MAC is a group's",
    keys: { mac: "01:00:5e:00:00:01" },
    code: 7,
    says: 'Cannot use "mac"',
    everyAdd: true,
  },
  {
    step: "the MTU is more than taps take",
    keys: { mtu: 65522 },
    code: 7,
    says: 'Cannot use "mtu": expected a whole number from 0 to 65521, found 65522',
    everyAdd: true,
  },
  {
    step: "an address cannot be added, to a tap that is a port already",
    keys: { bridge: "br0", ipam: { type: "static", addresses: [{ address: "ff02::5/64" }] } },
    setUp: (_, pod) => withBridge(pod),
    code: 999,
    says: "Cannot add address ff02::5/64",
    everyAdd: false,
  },
]
testBreakages(network, breakages)
