/**
 * What `pkg/ip` makes of a container's interface on a real kernel, judged with `ip` and by the settings in /proc/sys.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import type * as ipRoom from "../../pkg/ip/mod.ts"
import type * as netlink from "../../pkg/netlink/mod.ts"
import type * as netns from "../../pkg/netns/mod.ts"
import type * as types from "../../pkg/types/mod.ts"
import { type ContainerNamespace, HostNamespace, type Namespace } from "../lab/mod.ts"

/** What a function that runs inside the host's namespace is given: the rooms, and a socket on either side. */
type Kit = typeof netlink &
  typeof netns &
  typeof types &
  typeof ipRoom & { host: netlink.RouteSocket; inside: netlink.RouteSocket; sandbox: netns.Netns }

/** Runs `body`, sent as text, in a process of its own in the host's namespace; an error comes back as its code and its text. */
async function run<T>(body: (kit: Kit) => T): Promise<T> {
  const rooms = ["ip", "netlink", "netns", "types"]
  const script = `
    ${rooms.map((room) => `import * as ${room} from ${JSON.stringify(join(import.meta.dir, `../../pkg/${room}/mod.ts`))}`).join("\n")}
    const sandbox = netns.Netns.open(${JSON.stringify(pod.path)})
    const host = netlink.RouteSocket.open()
    const inside = sandbox.run(() => netlink.RouteSocket.open())
    let result
    try {
      result = (${body})({ ...netlink, ...netns, ...types, ...ip, host, inside, sandbox })
    } catch (error) {
      result = { code: error.code, message: error.message }
    }
    console.log(JSON.stringify({ result }))`
  const { stdout } = await host.exec(process.execPath, ["-e", script])
  return JSON.parse(stdout).result as T
}

type Shown = Record<string, unknown>

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create("ip-room")
  pod = await host.addContainer()
})
afterAll(() => host[Symbol.asyncDispose]())

const show = async (namespace: Namespace, ...words: string[]) =>
  await namespace.json<Shown[]>("ip", ["-d", "-j", ...words])
const setting = async (name: string) => (await pod.exec("cat", [`/proc/sys/net/${name}`])).stdout.trim()

test("an interface has its addresses, settings, alias and routes, and its addresses are usable at once", async () => {
  await pod.exec("sysctl", ["-qw", "net.ipv6.conf.lo.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"])
  const name = await run(({ host, inside, sandbox, createVethPair, configureLink, getLink, setLink }) => {
    const name = createVethPair(host, { sandbox, ifName: "eth0", mtu: 1400, mac: "0a:00:00:00:00:01" })
    setLink(host, getLink(host, name), { up: true })
    const ips = [{ address: "10.1.0.5/24", gateway: "10.1.0.1" }, { address: "fd00::5/64" }]
    const routes = [{ dst: "10.9.0.0/16", gw: "10.1.0.1" }, { dst: "10.8.0.0/16" }]
    const link = getLink(inside, "eth0")
    configureLink({ sandbox, inside, link }, { interfaces: [], ips, routes, dns: {} } as never, { alias: "lab/c/eth0" })
    return name
  })
  expect(name).toMatch(/^veth[0-9a-f]{8}$/)
  const [link] = await show(pod, "address", "show", "dev", "eth0")
  const ours = ((link?.addr_info ?? []) as Shown[]).filter(({ scope }) => scope === "global")
  expect(ours.map(({ local, prefixlen, tentative, nodad }) => [local, prefixlen, tentative, nodad])).toEqual([
    ["10.1.0.5", 24, undefined, undefined],
    ["fd00::5", 64, undefined, true],
  ])
  expect(link).toMatchObject({ mtu: 1400, address: "0a:00:00:00:00:01", ifalias: "lab/c/eth0", num_tx_queues: 1 })
  expect(link?.flags).toContain("UP")
  expect((await show(host, "link", "show", "dev", name))[0]).toMatchObject({ num_tx_queues: 1, num_rx_queues: 1 })
  const routes = await pod.json<Shown[]>("ip", ["-j", "route"])
  expect(routes.map(({ dst, gateway }) => [dst, gateway])).toEqual([
    ["10.1.0.0/24", undefined],
    ["10.8.0.0/16", "10.1.0.1"], // the gateway of the address, as the specification says
    ["10.9.0.0/16", "10.1.0.1"],
  ])
  const [arp, dad, notify, keep, off, loopback] = await Promise.all(
    ["ipv4/conf/eth0/arp_notify", "ipv6/conf/eth0/accept_dad", "ipv6/conf/eth0/ndisc_notify"]
      .concat("ipv6/conf/eth0/keep_addr_on_down", "ipv6/conf/eth0/disable_ipv6", "ipv6/conf/lo/disable_ipv6")
      .map(setting),
  )
  expect({ arp, dad, notify, keep, off, loopback }).toEqual({
    arp: "1",
    dad: "0",
    notify: "1",
    keep: "1",
    off: "0",
    loopback: "0",
  })
})

test("an interface without IPv6 keeps the settings of IPv6 but for the detection, and without addresses all of them", async () => {
  await pod.exec("sysctl", ["-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv6.conf.default.accept_dad=1"])
  await run(({ host, inside, sandbox, createVethPair, configureLink, getLink }) => {
    for (const [ifName, ips] of [
      ["four", [{ address: "10.2.0.5/24" }]],
      ["none", []],
    ] as const) {
      createVethPair(host, { sandbox, ifName })
      configureLink({ sandbox, inside, link: getLink(inside, ifName) }, {
        interfaces: [],
        ips,
        routes: [],
        dns: {},
      } as never)
    }
  })
  const settings = (name: string) =>
    Promise.all(
      ["ipv4", "ipv6"].flatMap((family) =>
        (family === "ipv4" ? ["arp_notify"] : ["accept_dad", "disable_ipv6", "ndisc_notify"]).map((key) =>
          setting(`${family}/conf/${name}/${key}`),
        ),
      ),
    )
  expect(await settings("four")).toEqual(["1", "0", "1", "0"])
  expect(await settings("none")).toEqual(["0", "1", "1", "0"])
})

test("detection of duplicates is waited for, and another's address is refused by name", async () => {
  await pod.exec("sysctl", ["-qw", "net.ipv6.conf.default.disable_ipv6=0"])
  const refused = await run(
    ({ host, inside, sandbox, createVethPair, configureLink, getLink, setLink, addAddress, parseCidr }) => {
      const name = createVethPair(host, { sandbox, ifName: "dad" })
      const end = getLink(host, name)
      addAddress(host, end, { ...(parseCidr("fd01::6/64") as types.Cidr), noDad: true })
      setLink(host, end, { up: true })
      const link = getLink(inside, "dad")
      const configure = (address: string) =>
        configureLink({ sandbox, inside, link }, { interfaces: [], ips: [{ address }], routes: [], dns: {} } as never, {
          detectDuplicates: true,
        })
      configure("fd01::5/64")
      configure("fd01::6/64")
    },
  )
  expect(refused).toEqual({ code: 999, message: 'Cannot use fd01::6 on "dad": another host has it' } as never)
  const [link] = await show(pod, "address", "show", "dev", "dad")
  const first = ((link?.addr_info ?? []) as Shown[]).find(({ local }) => local === "fd01::5")
  expect([first?.tentative, first?.nodad]).toEqual([undefined, undefined])
  expect([await setting("ipv6/conf/dad/accept_dad"), await setting("ipv6/conf/dad/enhanced_dad")]).toEqual(["1", "1"])
})

test.each([
  ["an address", 'Cannot add address 10.3.0.5/24 to "eth9"'],
  ["the link", 'Cannot bring up "eth0"'],
  ["a route", 'Cannot add the routes of "eth0"'],
] as const)("where the kernel refuses %s that is what the error says", async (what, message) => {
  const refusals = await run(({ inside, sandbox, configureLink, getLink }) => {
    const link = getLink(inside, "eth0")
    const none = { interfaces: [], ips: [], routes: [], dns: {} }
    const tries: Record<string, () => void> = {
      "an address": () =>
        configureLink({ sandbox, inside, link: { ...link, index: 9999 as never, name: "eth9" } }, {
          ...none,
          ips: [{ address: "10.3.0.5/24" }],
        } as never),
      "the link": () => configureLink({ sandbox, inside, link }, none as never, { alias: "x".repeat(300) }),
      "a route": () =>
        configureLink({ sandbox, inside, link }, {
          ...none,
          routes: [{ dst: "10.4.0.0/16", gw: "192.0.2.1" }],
        } as never),
    }
    return Object.entries(tries).map(([name, attempt]) => {
      try {
        attempt()
        return [name, "nothing"]
      } catch (error) {
        return [name, (error as Error).message]
      }
    })
  })
  expect(new Map(refusals as [string, string][]).get(what)).toBe(message)
})

test("the routes of a link are its unicast ones, of both families; of a table, if one is asked for", async () => {
  await pod.exec("ip", ["route", "add", "10.7.0.0/16", "via", "10.1.0.1", "table", "77"])
  await pod.exec("ip", ["route", "add", "10.6.0.0/16", "nexthop", "via", "10.1.0.1", "nexthop", "dev", "four"])
  await pod.exec("ip", ["route", "add", "10.5.0.0/16", "nexthop", "via", "10.1.0.1", "nexthop", "via", "10.1.0.2"])
  await pod.exec("ip", ["-6", "route", "add", "fd05::/64", "nexthop", "via", "fd00::1", "nexthop", "via", "fd01::9"])
  const found = await run(({ inside, listRoutesOf, getLink, formatCidr, usedTables, takeTable }) => {
    const link = getLink(inside, "eth0")
    const texts = (table?: number) =>
      listRoutesOf(inside, link, table).map(
        ({ dst, prefix, gateway, nextHops }) =>
          `${formatCidr({ ip: dst, prefix })}${gateway ? " via" : ""}${nextHops ? ` ${nextHops.length} hops` : ""}`,
      )
    const used = usedTables(inside)
    return {
      all: texts().sort(),
      of77: texts(77),
      used: [...used].sort((a, b) => a - b),
      next: [takeTable(used, 76), takeTable(used, 76)],
    }
  })
  expect(found.all).toEqual(
    ["10.1.0.0/24", "10.5.0.0/16 2 hops", "10.7.0.0/16 via", "10.8.0.0/16 via", "10.9.0.0/16 via"].concat(
      "fd00::/64",
      "fd05::/64 via",
      "fe80::/64",
    ),
  )
  expect(found).toMatchObject({ of77: ["10.7.0.0/16 via"], used: [0, 77, 253, 254, 255], next: [76, 78] })
})

test("a route is added beside others, and once; what else the kernel says is thrown", async () => {
  const [once, refused] = await run(({ inside, addRouteIfMissing, getLink, parseIp }) => {
    const { index } = getLink(inside, "eth0")
    const dst = parseIp("10.11.0.0") as Uint8Array
    for (let time = 0; time < 2; time++) addRouteIfMissing(inside, { dst, prefix: 16, index })
    try {
      addRouteIfMissing(inside, { dst, prefix: 16, gateway: parseIp("192.0.2.1") as Uint8Array })
      return ["", "nothing"]
    } catch (error) {
      return ["once", (error as { errno?: string }).errno ?? String(error)]
    }
  })
  expect([once, refused]).toEqual(["once", "ENETUNREACH"])
  expect(await pod.json<Shown[]>("ip", ["-j", "route", "show", "10.11.0.0/16"])).toHaveLength(1)
})

test("a link that passes traffic is as it is then; one whose other end is down is refused with its state, a deleted one as gone", async () => {
  const answers = await run(
    ({ host, inside, sandbox, createVethPair, getLink, setLink, deleteLink, waitOperational }) => {
      const name = createVethPair(host, { sandbox, ifName: "late" })
      const end = getLink(host, name)
      setLink(host, end, { up: true })
      const texts: unknown[] = []
      const attempt = (body: () => unknown) => {
        try {
          texts.push(body())
        } catch (error) {
          const { code, message } = error as { code: number; message: string }
          texts.push(`${code} ${message.replace(name, "NAME")}`)
        }
      }
      attempt(() => waitOperational(host, end).name === name)
      setLink(inside, getLink(inside, "late"), { up: true })
      attempt(() => waitOperational(host, end).attributes.operState)
      deleteLink(host, end)
      attempt(() => waitOperational(host, { ...end, attributes: { ...end.attributes, operState: 2 } }))
      return texts
    },
  )
  expect(answers).toEqual([
    // The kernel says the former when both ends happen to have one index.
    expect.stringMatching(/^11 Cannot bring up "NAME" within 2550 ms: its state is (Down|LowerLayerDown)$/),
    6,
    '11 Cannot bring up "NAME" within 2550 ms: its state is gone',
  ])
})
