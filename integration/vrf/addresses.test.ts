import { expect } from "bun:test"
import { Attachment, type ContainerNamespace, HostNamespace, newest, testWith, waitFor } from "../lab/mod.ts"
import { routesOn, VrfHost } from "./vrf-lab.ts"

interface Shown {
  readonly local: string
  readonly prefixlen: number
  readonly tentative?: true
  readonly dadfailed?: true
}

/** Returns the IPv6 addresses of eth0, except the kernel's link-local address. */
async function addressesOf(pod: ContainerNamespace): Promise<Shown[]> {
  const [link] = await pod.json<{ addr_info: Shown[] }[]>("ip", ["-j", "-6", "address", "show", "dev", "eth0"])
  return (link?.addr_info ?? []).filter(({ local }) => !/^fe80::.*ff:fe/.test(local))
}

const textOf = ({ local, prefixlen }: Shown) => `${local}/${prefixlen}`

/** Creates a container with eth0, whose peer is "far" on the host, and an attachment of vrf. */
async function withLink(addresses: readonly string[]) {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  await host.exec("ip", "link add eth0 netns POD type veth peer name far".replace("POD", pod.name).split(" "))
  // With so many solicitations, duplicate address detection takes minutes.
  await pod.exec("sysctl", ["-qw", "net.ipv6.conf.eth0.accept_dad=1", "net.ipv6.conf.eth0.dad_transmits=200"])
  const add = async (address: string, ...more: string[]) =>
    pod.exec("ip", ["-6", "address", "add", address, "dev", "eth0", ...more])
  const ips = addresses.map((address) => ({ address, interface: 0 }))
  const prevResult = { cniVersion: newest, interfaces: [{ name: "eth0", sandbox: pod.path }], ips }
  const config = { cniVersion: newest, name: "lab", type: "vrf", vrfname: "red", prevResult }
  return { host, pod, add, vrf: new Attachment(host, pod, config) }
}

const states: [string, string[], boolean][] = [
  ["tentative, while duplicate address detection runs", ["far up", "eth0 up"], true],
  ["tentative, since there is no carrier", ["eth0 up"], true],
  ["of a link that is down", [], true],
]

for (const [state, ups, isTentative] of states) {
  testWith(["vrf"], `IPv6 addresses are kept and not waited for: ${state}`, async () => {
    const named = ["fd00:7::2/64", "fd00:8::2/64"]
    const { host, pod, add, vrf } = await withLink(named)
    await using _ = host
    for (const up of ups) await (up.startsWith("far") ? host : pod).exec("ip", ["link", "set", ...up.split(" ")])
    for (const address of named) await add(address)
    await add("fd00:9::2/64", "valid_lft", "3600", "preferred_lft", "1800") // added by an operator
    if (ups.length > 0) await add("fe80::7/64")
    const before = await addressesOf(pod)
    expect(before.length).toBe(ups.length > 0 ? 4 : 3)
    expect(before.every(({ tentative }) => tentative === true)).toBe(isTentative)

    const { ips } = await vrf.add()
    const there = (await addressesOf(pod)).map(textOf)
    expect(there.sort()).toEqual(before.map(textOf).sort())
    for (const { address } of ips) expect(there).toContain(address)
    const [{ valid_life_time: left } = { valid_life_time: 0 }] = (await addressesOf(pod)).flatMap((one) =>
      one.local === "fd00:9::2" ? (one as unknown as { valid_life_time: number }) : [],
    )
    expect(left).toBeGreaterThan(3000)
    expect(left).toBeLessThanOrEqual(3600)

    await vrf.del()
    expect((await addressesOf(pod)).map(textOf).sort()).toEqual(before.map(textOf).sort())
  })
}

testWith(
  ["vrf"],
  "an address that another host has is kept as it is, and holds ADD up no more than before",
  async () => {
    const { host, pod, add, vrf } = await withLink(["fd00:7::2/64"])
    await using _ = host
    await pod.exec("sysctl", ["-qw", "net.ipv6.conf.eth0.dad_transmits=1"])
    await host.exec("ip", ["address", "add", "fd00:7::2/64", "dev", "far", "nodad"])
    for (const [where, link] of [
      [host, "far"],
      [pod, "eth0"],
    ] as const)
      await where.exec("ip", ["link", "set", link, "up"])
    await add("fd00:7::2/64")
    const failed = async () => (await addressesOf(pod)).some(({ dadfailed }) => dadfailed)
    await waitFor(failed, "duplicate address detection to fail")
    await vrf.add()
    expect((await addressesOf(pod)).map(textOf)).toEqual(["fd00:7::2/64"])
  },
)

testWith(
  ["vrf"],
  "a route of the result that the interface never had is made neither in the VRF nor in table main",
  async () => {
    await using net = await VrfHost.create()
    const { vrf, prevResult } = await net.attach(1)
    const never = { dst: "10.123.0.0/16", gw: "10.1.0.1" }
    const keys = { prevResult: { ...prevResult, routes: [...(prevResult.routes ?? []), never] } }
    const main = await net.routes("main")
    for (const _ of ["once", "twice"]) {
      await vrf.add(keys)
      expect(await net.routes(1)).toEqual(routesOn(1))
      expect((await net.routes("main")).filter((route) => route.endsWith(" eth1"))).toEqual([])
    }
    for (const _ of ["once", "twice"]) {
      await vrf.del(keys)
      expect(await net.routes("main")).toEqual(main)
    }
  },
)

testWith(["vrf"], "the kernel's own routes that the earlier plugin has deleted are not created again", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const ranges = [[{ subnet: "10.22.0.0/24" }], [{ subnet: "fd00:22::/64" }]]
  const ipam = { type: "host-local", ranges, routes: [{ dst: "0.0.0.0/0" }] }
  const prevResult = await new Attachment(host, pod, { cniVersion: newest, name: "lab", type: "ptp", ipam }).add()
  const config = { cniVersion: newest, name: "lab", type: "vrf", vrfname: "red", table: 1001, prevResult }
  const vrf = new Attachment(host, pod, config)
  const routes = async (table: string) => {
    const shown = await pod.exec("sh", ["-c", `ip -4 route show table ${table}; ip -6 route show table ${table}`])
    return shown.stdout.split("\n").filter((line) => /^(10|fd00|default)/.test(line))
  }
  const before = await routes("main")
  await vrf.add()
  expect((await routes("1001")).sort()).toEqual(before.toSorted())
  await vrf.del()
  expect((await routes("main")).sort()).toEqual(before.toSorted())
})
