import { expect, test } from "bun:test"
import { stat } from "node:fs/promises"
import {
  addressesOf,
  expectUnchanged,
  fail,
  isAllocationTrace,
  linkOf,
  runTraced,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { FlannelHost, ipv4Node, type SubnetKeys } from "./flannel-lab.ts"

const ipv6Keys = { FLANNEL_IPV6_NETWORK: "fd00:244::/48", FLANNEL_IPV6_SUBNET: "fd00:244:0:1::1/64" }
const none = { FLANNEL_NETWORK: undefined, FLANNEL_SUBNET: undefined }
const [range4, range6] = [[{ subnet: "10.244.1.0/24" }], [{ subnet: "fd00:244:0:1::/64" }]]
const [route4, route6] = [{ dst: "10.244.0.0/16" }, { dst: "fd00:244::/48" }]

test.each<[string, SubnetKeys, object, object[], string[]]>([
  ["IPv4", {}, [range4], [route4], ["10.244.1.2/24"]],
  ["IPv6", { ...none, ...ipv6Keys }, [range6], [route6], ["fd00:244:0:1::2/64"]],
  ["both families", ipv6Keys, [range4, range6], [route4, route6], ["10.244.1.2/24", "fd00:244:0:1::2/64"]],
  [
    "two networks",
    { FLANNEL_NETWORK: "10.244.0.0/16,10.245.3.4/16,10.244.0.0/16" },
    [range4],
    [route4, { dst: "10.245.0.0/16" }],
    ["10.244.1.2/24"],
  ],
])(
  "a container has addresses of the node's subnet, and the delegate's configuration is kept until DEL: %s",
  async (_, keys, ranges, routes, addresses) => {
    await using net = await FlannelHost.create({ ...ipv4Node, ...keys })
    const pod = await net.host.addContainer()
    const attachment = net.attachment(pod, { delegate: undefined })
    const result = await attachment.add()
    expect(result.ips.map(({ address }) => address)).toEqual(addresses)
    expect(await addressesOf(pod, "eth0")).toEqual(addresses)
    expect(await linkOf(pod, "eth0")).toMatchObject({ mtu: 1410 })
    expect(await linkOf(net.host, "cni0")).toMatchObject({ mtu: 1410 })
    const name = `podnet:${pod.name}:eth0.json`
    const kept = await net.kept()
    expect(Object.keys(kept)).toEqual([name])
    const ipam = { ranges, routes, type: "host-local" }
    // Without spaces and with sorted keys, as the reference plugin writes it.
    expect(kept[name]).toBe(
      JSON.stringify({
        cniVersion: "1.1.0",
        ipMasq: false,
        ipam,
        isGateway: true,
        mtu: 1410,
        name: "podnet",
        type: "bridge",
      }),
    )
    const { mode } = await stat(net.host.file(`/var/lib/cni/flannel/${name}`))
    expect((mode & 0o777).toString(8)).toBe("600")
    await succeed(attachment.check(result))
    for (const _ of ["once", "twice"]) {
      await attachment.del({ prevResult: result })
      expect(await net.kept()).toEqual({})
    }
  },
)

test("the record is on the disk under its name, for the DEL after a power cut", async () => {
  await using net = await FlannelHost.create(ipv4Node)
  const attachment = net.attachment(await net.host.addContainer(), {})
  const { text } = await runTraced(attachment, "ADD", ["trace=fsync,rename,execve"])
  const calls = [...text.matchAll(/(fsync|rename|execve)\(/g)].map(([, name]) => name)
  expect(calls.slice(0, 4)).toEqual(["execve", "fsync", "rename", "fsync"])
  await attachment.del()
})

test("what the configuration gives goes before what flanneld says, and secrets are not on stderr", async () => {
  await using net = await FlannelHost.create({ ...ipv4Node, FLANNEL_IPMASQ: "false" })
  const pod = await net.host.addContainer()
  const delegate = { type: "ptp", ipMasq: false, mtu: 1300, password: "swordfish" }
  const ipam = { routes: [{ dst: "192.0.2.0/24", gw: "10.244.1.9" }], subnet: "10.1.0.0/24", ranges: [], more: 1 }
  const attachment = net.attachment(pod, { delegate, ipam, runtimeConfig: { mac: "0a:00:00:00:00:07" } })
  const { stderr } = await succeed(attachment.run("ADD"))
  expect(stderr).not.toContain("swordfish")
  const [kept = ""] = Object.values(await net.kept())
  expect(JSON.parse(kept)).toEqual({
    cniVersion: "1.1.0",
    name: "podnet",
    ...delegate,
    runtimeConfig: { mac: "0a:00:00:00:00:07" },
    ipam: { type: "host-local", more: 1, ranges: [range4], routes: [...ipam.routes, route4] },
  })
  expect(await linkOf(pod, "eth0")).toMatchObject({ mtu: 1300, address: "0a:00:00:00:00:07" })
  await attachment.del()
})

test("each interface of a container, and each network, has a configuration of its own", async () => {
  await using net = await FlannelHost.create()
  const pod = await net.host.addContainer()
  const attachments = [
    net.attachment(pod),
    net.attachment(pod, { delegate: { bridge: "cni1" } }, { ifName: "eth1" }),
    net.attachment(
      pod,
      { name: "other", delegate: { type: "ptp" }, ipam: { dataDir: "/run/cni/other" } },
      { ifName: "eth2" },
    ),
  ]
  await attachments[0]?.add()
  await net.writeSubnets({ ...ipv4Node, FLANNEL_SUBNET: "10.244.2.1/24" })
  await attachments[1]?.add()
  await net.writeSubnets({ ...ipv4Node, FLANNEL_SUBNET: "10.244.3.1/24" })
  await attachments[2]?.add()
  const names = [`other:${pod.name}:eth2.json`, `podnet:${pod.name}:eth0.json`, `podnet:${pod.name}:eth1.json`]
  expect(Object.keys(await net.kept()).sort()).toEqual(names)
  for (const attachment of attachments) await attachment.del()
  expect(await net.kept()).toEqual({})
  expect((await pod.json<object[]>("ip", ["-j", "link"])).length).toBe(1)
})

const missing =
  "it is missing FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK, FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET, FLANNEL_MTU, FLANNEL_IPMASQ"
test.each<[string, SubnetKeys, object, number, string]>([
  [
    "subnet.env has no key of flannel",
    { ...none, foo: "bar", FLANNEL_MTU: undefined, FLANNEL_IPMASQ: undefined },
    {},
    999,
    missing,
  ],
  ["a key is missing", { FLANNEL_MTU: undefined }, {}, 999, "it is missing FLANNEL_MTU"],
  [
    "the MTU is not a number",
    { FLANNEL_MTU: "big" },
    {},
    999,
    'Cannot use FLANNEL_MTU of the subnet file "/run/cni/subnet.env": expected a number, found "big"',
  ],
  [
    "a subnet cannot be parsed",
    { FLANNEL_SUBNET: "10.244.1.1" },
    {},
    999,
    "Cannot use FLANNEL_SUBNET of the subnet file",
  ],
  ["flanneld has not written it", {}, { subnetFile: "/run/cni/absent.env" }, 11, "flanneld has not written it"],
  ["the delegate is not an object", {}, { delegate: "bridge" }, 7, 'Cannot use "delegate": expected an object'],
  ["the delegate's type is not a string", {}, { delegate: { type: 7 } }, 7, 'Cannot use "delegate.type"'],
  ["the delegate has a name", {}, { delegate: { Name: "x" } }, 7, 'Cannot use "delegate.name": it is set by flannel'],
  ["the delegate has an ipam", {}, { delegate: { ipam: {} } }, 7, 'Cannot use "delegate.ipam": it is set by flannel'],
  ["the delegate is flannel", {}, { delegate: { type: "flannel" } }, 7, 'Cannot delegate to "flannel"'],
  ["the delegate does not exist", {}, { delegate: { type: "absent" } }, 999, 'failed to find plugin "absent"'],
  ["the delegate refuses", {}, { delegate: { type: "bridge", mtu: 67 } }, 7, 'Cannot use "mtu"'],
  ["there is no place to keep it", {}, { dataDir: "/dev/null/flannel" }, 5, '"/dev/null/flannel'],
])(
  "#36 flannel: when %s, ADD says so and leaves nothing, and STATUS says so too",
  async (_, keys, config, code, words) => {
    await using net = await FlannelHost.create({ ...ipv4Node, ...keys })
    const pod = await net.host.addContainer()
    const attachment = net.attachment(pod, config)
    const [before, inside] = [await takeSnapshot(net.host), await takeSnapshot(pod)]
    expect(await fail(attachment.run("ADD"))).toMatchObject({ code, msg: expect.stringContaining(words) })
    expect(await net.kept()).toEqual({})
    expectUnchanged(inside, await takeSnapshot(pod))
    const status = await fail(attachment.run("STATUS"))
    expect(status.code).toBe(code === 7 ? 7 : 50)
    expect(status.msg).toContain(code === 5 ? 'Cannot keep delegate\'s configurations in "/dev/null/flannel"' : words)
    await attachment.del()
    expectUnchanged(before, await takeSnapshot(net.host), isAllocationTrace)
  },
)
