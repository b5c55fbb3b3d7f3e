/** Tests the interface that `pkg/ip` configures in a container on a real kernel; `ip` and /proc/sys show results. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type * as types from "../../../pkg/types/mod.ts"
import { type ContainerNamespace, HostNamespace, type Namespace } from "../../lab/mod.ts"
import { runOnHost } from "./rooms.ts"

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

test("an interface has its addresses, settings and routes, and its addresses are usable at once", async () => {
  await pod.exec("sysctl", ["-qw", "net.ipv6.conf.lo.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"])
  const name = await runOnHost(
    host,
    pod,
    ({ host, inside, sandbox, createVethPair, configureLink, getLink, setLink }) => {
      const name = createVethPair(host, {
        sandbox,
        ifName: "eth0",
        mtu: 1400,
        mac: "0a:00:00:00:00:01",
        alias: "lab/c/eth0",
      })
      setLink(host, getLink(host, name), { up: true })
      const ips = [{ address: "10.1.0.5/24", gateway: "10.1.0.1" }, { address: "fd00::5/64" }]
      const routes = [{ dst: "10.9.0.0/16", gw: "10.1.0.1" }, { dst: "10.8.0.0/16" }]
      const link = getLink(inside, "eth0")
      configureLink({ sandbox, inside, link }, { interfaces: [], ips, routes, dns: {} } as never)
      return name
    },
  )
  expect(name).toMatch(/^veth[0-9a-f]{8}$/)
  const [link] = await show(pod, "address", "show", "dev", "eth0")
  const ours = ((link?.addr_info ?? []) as Shown[]).filter(({ scope }) => scope === "global")
  expect(ours.map(({ local, prefixlen, tentative, nodad }) => [local, prefixlen, tentative, nodad])).toEqual([
    ["10.1.0.5", 24, undefined, undefined],
    ["fd00::5", 64, undefined, true],
  ])
  expect(link).toMatchObject({ mtu: 1400, address: "0a:00:00:00:00:01", num_tx_queues: 1 })
  expect(link?.flags).toContain("UP")
  expect((await show(host, "link", "show", "dev", name))[0]).toMatchObject({
    ifalias: "lab/c/eth0",
    num_tx_queues: 1,
    num_rx_queues: 1,
  })
  const routes = await pod.json<Shown[]>("ip", ["-j", "route"])
  expect(routes.map(({ dst, gateway }) => [dst, gateway])).toEqual([
    ["10.1.0.0/24", undefined],
    ["10.8.0.0/16", "10.1.0.1"], // the gateway of the address, as the specification requires
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
  await runOnHost(host, pod, ({ host, inside, sandbox, createVethPair, configureLink, getLink }) => {
    for (const [ifName, ips] of [
      ["four", [{ address: "10.2.0.5/24" }]],
      ["none", []],
    ] as const) {
      createVethPair(host, { sandbox, ifName, alias: "lab/c/x" })
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
  await pod.exec("sysctl", [
    "-qw",
    "net.ipv6.conf.default.disable_ipv6=0",
    "net.ipv6.conf.default.router_solicitation_delay=0",
  ])
  const refused = await runOnHost(
    host,
    pod,
    ({
      host,
      inside,
      sandbox,
      createVethPair,
      configureLink,
      getLink,
      setLink,
      addAddress,
      parseCidr,
      writeSysctl,
    }) => {
      const name = createVethPair(host, { sandbox, ifName: "dad", alias: "lab/c/x" })
      // The kernel decides after half a second. The plugin waits for five seconds, so the test succeeds on a busy
      // machine too.
      sandbox.run(() => writeSysctl("net/ipv6/neigh/dad/retrans_time_ms", "500"))
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
  ["an address", 'Cannot add address 10.3.0.5/24 to "eth9"', "ENODEV"],
  ["the link", 'Cannot bring up "eth0"', "ENODEV"],
  ["a route", 'Cannot add the routes of "eth0"', "ENETUNREACH"],
] as const)(
  "where the kernel refuses %s that is what the error says, with the reason",
  async (what, message, errno) => {
    const refusals = await runOnHost(host, pod, ({ inside, sandbox, configureLink, getLink }) => {
      const link = getLink(inside, "eth0")
      const none = { interfaces: [], ips: [], routes: [], dns: {} }
      const tries: Record<string, () => void> = {
        "an address": () =>
          configureLink({ sandbox, inside, link: { ...link, index: 9999 as never, name: "eth9" } }, {
            ...none,
            ips: [{ address: "10.3.0.5/24" }],
          } as never),
        "the link": () => configureLink({ sandbox, inside, link: { ...link, index: 9999 as never } }, none as never),
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
          const { message, details } = error as { message: string; details: string }
          return [name, message, details]
        }
      })
    })
    const [, says, details] = refusals.find(([name]) => name === what) ?? []
    expect([says, details]).toEqual([message, expect.stringContaining(errno)])
  },
)
