import { expect } from "bun:test"
import {
  Attachment,
  addressesOf,
  builtPlugins,
  fail,
  newest,
  type PluginResult,
  pingOnce,
  pluginEnv,
  succeed,
  testWith,
  waitFor,
} from "../lab/mod.ts"
import { routesOn, VrfHost } from "./vrf-lab.ts"

const addresses = (ifName: string, shown: readonly string[]) => shown.find((line) => line.startsWith(`${ifName} `))

testWith(
  ["vrf"],
  "an interface is in its VRF with addresses and routes, is passed by everything else, and comes back with all of them",
  async () => {
    await using net = await VrfHost.create()
    const { pod } = net
    const [plain, { vrf, prevResult, maker }] = [await net.attach(2), await net.attach(1)]
    await pod.exec("ip", ["route", "add", "10.77.0.0/16", "via", "10.1.0.1", "dev", "eth1", "table", "500"])
    // The kernel adds its rule for VRFs with the first VRF, and never removes it.
    await pod.exec("sh", ["-c", "ip link add first type vrf table 9999 && ip link del first"])
    const before = await net.describe()

    expect(await vrf.add()).toEqual(prevResult)
    expect(await net.link("eth1")).toMatchObject({ master: "red" })
    expect(await net.link("red")).toMatchObject({ table: 1 })
    expect(await net.routes(1)).toEqual(routesOn(1))
    expect(await net.routes("main")).toEqual(routesOn(2))
    expect(await net.routes(500)).toEqual(["10.77.0.0/16 10.1.0.1 eth1"])
    expect(addresses("eth1", await net.describe())).toBe(addresses("eth1", before))
    for (const gateway of ["10.1.0.1", "fd00:1::1"]) {
      await waitFor(
        async () => (await pod.tryExec("ping", ["-c1", "-W1", "-I", "red", gateway])).exitCode === 0,
        gateway,
      )
    }
    for (const gateway of ["10.2.0.1", "fd00:2::1"]) await waitFor(() => pingOnce(pod, gateway), gateway)
    for (const attachment of [vrf, maker, plain.maker]) {
      await succeed(attachment.check(attachment === plain.maker ? plain.prevResult : prevResult))
    }

    const added = await net.describe()
    expect(await vrf.add()).toEqual(prevResult) // a repeated ADD
    expect(await net.describe()).toEqual(added)

    for (const keys of [{}, { prevResult: undefined }]) {
      await vrf.del(keys)
      expect(await net.describe()).toEqual(before)
    }
    await vrf.add()
    await vrf.del({ prevResult: undefined, vrfname: 7, table: "many" }) // finds the VRF as the interface's master
    expect(await net.describe()).toEqual(before)
  },
)

testWith(
  ["vrf"],
  "a table is free when no VRF, no rule and no route has it, and a VRF goes with its last interface",
  async () => {
    await using net = await VrfHost.create()
    const { pod } = net
    const [a, b, c] = [
      await net.attach(1),
      await net.attach(2),
      await net.attach(3, { vrfName: "blue", vrfname: undefined }),
    ]
    await pod.exec("ip", ["rule", "add", "from", "203.0.113.1", "lookup", "1"])
    await pod.exec("ip", ["-6", "route", "add", "2001:db8:9::/48", "dev", "eth1", "table", "3"])
    for (const { vrf } of [a, b, c]) await vrf.add()
    expect(await net.link("red")).toMatchObject({ table: 2 })
    expect(await net.link("blue")).toMatchObject({ table: 4 })
    expect((await net.routes(2)).filter((route) => !route.startsWith("fe80"))).toEqual(
      [...routesOn(1), ...routesOn(2)].filter((route) => !route.startsWith("fe80")).sort(),
    )
    await a.vrf.del()
    expect(await net.link("red")).toMatchObject({ table: 2 })
    await pod.exec("ip", ["link", "del", "eth2"])
    await b.vrf.del() // although its interface no longer exists
    expect(await net.link("red")).toBeUndefined()
    expect(await net.link("blue")).toMatchObject({ table: 4 })
    await pod.exec("ip", ["address", "flush", "dev", "eth3"])
    await c.vrf.del() // although its routes cannot be restored
    expect(await net.link("blue")).toBeUndefined()
  },
)

testWith(
  ["vrf"],
  "IPv6 addresses that the kernel would drop are kept, and those that it looks for duplicates of are waited for",
  async () => {
    await using net = await VrfHost.create()
    const { host, pod } = net
    const wire = ["link", "add", "eth0", "netns", pod.name, "type", "veth", "peer", "name", "far"]
    await host.exec("ip", wire)
    await host.exec("ip", ["link", "set", "far", "up"])
    await pod.exec("sysctl", ["-qw", "net.ipv6.conf.eth0.accept_dad=1", "net.ipv6.conf.eth0.keep_addr_on_down=0"])
    await pod.exec("ip", ["link", "set", "eth0", "up"])
    for (const address of ["fd00:7::2/64", "fd00:8::2/64"])
      await pod.exec("ip", ["address", "add", address, "dev", "eth0"])
    await waitFor(
      async () => !JSON.stringify(await pod.json("ip", ["-j", "address"])).includes("tentative"),
      "addresses",
    )
    await pod.exec("ip", ["-6", "route", "add", "2001:db8::/32", "via", "fd00:7::1", "metric", "7"])
    const prevResult = {
      interfaces: [{ name: "eth0", sandbox: pod.path }],
      ips: [
        { address: "fd00:7::2/64", interface: 0 },
        { address: "fd00:8::2/64", interface: 0 },
      ],
    }
    const vrf = new Attachment(host, pod, {
      cniVersion: newest,
      name: "lab",
      type: "vrf",
      vrfname: "red",
      table: 1001,
      prevResult,
    })
    await vrf.add()
    const [shown] = await pod.json<{ addr_info: { local: string; tentative?: true }[] }[]>("ip", [
      "-j",
      "-6",
      "address",
      "show",
      "eth0",
    ])
    const ready = shown?.addr_info.filter(({ tentative }) => !tentative).map(({ local }) => local)
    expect(ready).toContain("fd00:7::2")
    expect(ready).toContain("fd00:8::2")
    expect(await net.routes(1001)).toContain("2001:db8::/32 fd00:7::1 eth0")
    const { stdout } = await pod.exec("sysctl", ["-n", "net.ipv6.conf.eth0.keep_addr_on_down"])
    expect(stdout.trim()).toBe("0")
    await vrf.del()
    expect(await net.routes("main")).toContain("2001:db8::/32 fd00:7::1 eth0")
    expect((await addressesOf(pod, "eth0")).filter((address) => address.startsWith("fd00"))).toHaveLength(2)
  },
)

testWith(
  ["vrf"],
  "CHECK of vrf names table, master and route that are not as ADD made them, and a VRF that is down or gone",
  async () => {
    await using net = await VrfHost.create()
    const { vrf, prevResult } = await net.attach(1, { table: 1001 })
    await vrf.add()
    const says = async (keys: object = {}) => (await fail(vrf.check(prevResult, keys))).msg
    expect(await says({ table: 7 })).toBe('Check of VRF "red" failed: expected table 7, found table 1001')
    const damage: [string, string, string][] = [
      [
        "ip route del default table 1001",
        "ip route add default via 10.1.0.1 dev eth1 table 1001",
        "Check of routes failed: expected default via 10.1.0.1",
      ],
      ["ip link set red down", "ip link set red up", 'Check of VRF "red" failed: expected up, found down'],
      ["ip link set eth1 nomaster", "", 'Check of master of "eth1" failed: expected "red", found none'],
      ["ip link del red", "", 'Check of VRFs failed: expected "red", found none of that name'],
      ["ip link del eth1", "", 'the interface does not exist in "'],
    ]
    await succeed(vrf.check(prevResult))
    for (const [command, mend, words] of damage) {
      await net.pod.exec("sh", ["-c", command])
      expect(await says()).toContain(words)
      if (!mend) continue
      await net.pod.exec("sh", ["-c", mend])
      await succeed(vrf.check(prevResult))
    }
  },
)

testWith(
  ["vrf"],
  "a failed ADD of vrf leaves everything as it was, also when its answer cannot be written",
  async () => {
    await using net = await VrfHost.create()
    const { host, pod } = net
    const { vrf, prevResult } = await net.attach(1)
    await pod.exec("sh", ["-c", "ip link add first type vrf table 9999 && ip link add other type bridge"])
    const before = await net.describe()
    const cases: [string, object, string][] = [
      ["", { vrfname: "other" }, "Netlink other is not a VRF"],
      ["", { vrfname: "first", table: 5 }, "VRF first already exist with different routing table 9999"],
      ["", { prevResult: undefined }, "Required prevResult missing"],
      ["ip rule add from 10.1.0.2 lookup 100 proto 67", {}, "sbr already routes by its addresses"],
      [
        "ip rule del from 10.1.0.2; ip link set eth1 master other",
        {},
        "interface eth1 has already a master set: other",
      ],
    ]
    for (const [command, keys, words] of cases) {
      if (command) await pod.exec("sh", ["-c", command])
      expect((await fail(vrf.run("ADD", keys))).msg).toContain(words)
      expect(await net.link("red")).toBeUndefined()
    }
    await vrf.del() // DEL ignores a master that it did not set
    expect(await net.link("eth1")).toMatchObject({ master: "other" })
    await pod.exec("ip", ["link", "set", "eth1", "nomaster"])
    expect(await net.describe()).toEqual(before)

    const bin = `${builtPlugins}/vrf`
    const env = pluginEnv({ bin, verb: "ADD", containerId: pod.name, netns: pod.path, ifName: "eth1" })
    const input = JSON.stringify({ ...vrf.config, prevResult })
    const output = await host.tryExec("bash", ["-c", `exec ${bin} > /dev/full`], { env, input })
    expect(output.stderr).toContain("Cannot write the result to stdout")
    expect(await net.describe()).toEqual(before)
  },
)

testWith(
  ["vrf"],
  "GC takes a VRF that GC of its interfaces has emptied, in a container that lives, and no other",
  async () => {
    await using net = await VrfHost.create()
    const [a, b] = [await net.attach(1), await net.attach(2, { vrfname: "blue" })]
    for (const { vrf } of [a, b]) await vrf.add()
    const gc = async (attachment: Attachment, valid: object[]) =>
      succeed(attachment.run("GC", { prevResult: undefined, "cni.dev/valid-attachments": valid }))
    const of = (ifname: string) => ({ containerID: net.pod.name, ifname })
    for (const attachment of [a.maker, a.vrf]) await gc(attachment, [of("eth1")])
    expect(await net.link("red")).toMatchObject({ table: 1 })
    await gc(a.vrf, [])
    expect(await net.link("red")).toMatchObject({ table: 1 }) // its interface still exists
    for (const attachment of [a.maker, a.vrf]) await gc(attachment, [])
    expect(await net.link("red")).toBeUndefined()
    expect(await net.link("blue")).toMatchObject({ table: 2 })
  },
)

testWith(
  ["vrf"],
  "sbr after vrf says which VRF is in its way; what the Go plugin has made goes by this one, and the other way round",
  async () => {
    await using net = await VrfHost.create()
    const { vrf, prevResult } = await net.attach(1, { table: 100 })
    await vrf.add()
    const sbr = new Attachment(net.host, net.pod, { ...vrf.config, type: "sbr" }, { ifName: "eth1" })
    expect((await fail(sbr.run("ADD"))).msg).toContain('it belongs to VRF "red"')
    const second = await net.attach(2)
    const plain = new Attachment(net.host, net.pod, { ...second.vrf.config, type: "sbr" }, { ifName: "eth2" })
    await plain.add() // for another interface; the VRF's table is in use
    expect((await net.pod.exec("ip", ["rule"])).stdout).toContain("from 10.2.0.2 lookup 101")
    await plain.del()
    await vrf.del()
    const go = new Attachment(
      net.host,
      net.pod,
      { ...vrf.config, cniVersion: "1.0.0", prevResult: { ...prevResult, cniVersion: "1.0.0" } as PluginResult },
      {
        ifName: "eth1",
        bin: "/usr/lib/cni/vrf",
      },
    )
    await go.add()
    expect(await net.link("eth1")).toMatchObject({ master: "red" })
    await vrf.del()
    expect(await net.link("red")).toBeUndefined()
    await vrf.add()
    await go.del()
    expect(await net.link("red")).toBeUndefined()
  },
)
