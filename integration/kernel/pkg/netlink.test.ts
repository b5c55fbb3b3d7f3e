/** Sends every request of `pkg/netlink` to a real kernel, in new namespaces; `ip` and `bridge` show the results. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import type * as libc from "../../../pkg/libc/mod.ts"
import type * as netlink from "../../../pkg/netlink/mod.ts"
import type * as types from "../../../pkg/types/mod.ts"
import { type ContainerNamespace, HostNamespace, type Namespace, waitFor } from "../../lab/mod.ts"

/** The modules that a function in a namespace can use. */
type Kit = typeof netlink &
  typeof libc &
  typeof types & { route: netlink.RouteSocket; ip: (text: string) => Uint8Array }

/**
 * Runs `body` in its own process inside the namespace, and returns its result. The process gets the text of `body`, so
 * `body` can use only its arguments. The result must be JSON.
 */
async function inside<T, A = undefined>(namespace: Namespace, body: (kit: Kit, given: A) => T, given?: A): Promise<T> {
  const doors = ["netlink", "libc", "types"].map((room) =>
    JSON.stringify(join(import.meta.dir, `../../../pkg/${room}/mod.ts`)),
  )
  const script = `
    import * as netlink from ${doors[0]}
    import * as libc from ${doors[1]}
    import * as types from ${doors[2]}
    const route = netlink.RouteSocket.open()
    const kit = { ...netlink, ...libc, ...types, route, ip: (text) => types.parseIp(text) }
    const result = (${body})(kit, ${JSON.stringify(given)})
    console.log(JSON.stringify({ result }))`
  const { stdout } = await namespace.exec(process.execPath, ["-e", script])
  return JSON.parse(stdout).result as T
}

/** An object in the output of `ip -j`. */
type Shown = Record<string, unknown>

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create("netlink")
  pod = await host.addContainer()
})
afterAll(() => host[Symbol.asyncDispose]())

const link = async (namespace: Namespace, name: string) =>
  (await namespace.json<Shown[]>("ip", ["-d", "-j", "link", "show", "dev", name]))[0]
const names = async (namespace: Namespace) =>
  (await namespace.json<Shown[]>("ip", ["-j", "link"])).map(({ ifname }) => ifname).sort()
const routes = (...selection: string[]) => host.json<Shown[]>("ip", ["-d", "-j", ...selection])

describe("links", () => {
  test("a bridge has its MTU and its MAC from the start", async () => {
    await inside(host, ({ route, addLink }) => {
      addLink(route, { kind: "bridge", name: "br0", mac: "0a:00:00:00:00:01", mtu: 1450, up: true })
    })
    expect(await link(host, "br0")).toMatchObject({
      address: "0a:00:00:00:00:01",
      mtu: 1450,
      linkinfo: { info_kind: "bridge" },
    })
    expect((await link(host, "br0"))?.flags).toContain("UP")
  })

  test("a veth pair comes to be with both ends in place, named and addressed", async () => {
    await inside(
      host,
      ({ route, addVeth, getLink, FileDescriptor, Open }, path) => {
        const netnsFd = FileDescriptor.open(path, Open.ReadOnly).fd
        const master = getLink(route, "br0").index
        const near = { name: "veth0", mac: "0a:00:00:00:00:02", mtu: 1400, master, up: true, txQueueLength: 77 }
        addVeth(route, near, { name: "eth0", mac: "0a:00:00:00:00:03", mtu: 1400, netnsFd, txQueueLength: 66 })
      },
      pod.path,
    )
    await pod.exec("ip", ["link", "set", "eth0", "up"])
    expect(await link(host, "veth0")).toMatchObject({
      address: "0a:00:00:00:00:02",
      mtu: 1400,
      master: "br0",
      txqlen: 77,
      operstate: "UP",
      linkinfo: { info_kind: "veth", info_slave_kind: "bridge" },
    })
    expect(await link(pod, "eth0")).toMatchObject({
      address: "0a:00:00:00:00:03",
      mtu: 1400,
      txqlen: 66,
      operstate: "UP",
    })
    expect(await names(pod)).toEqual(["eth0", "lo"])
  })

  test("a pair whose peer's name is taken leaves neither end", async () => {
    const before = [await names(host), await names(pod)]
    const refusal = await inside(
      host,
      ({ route, addVeth, FileDescriptor, Open, isErrno }, path) => {
        try {
          addVeth(route, { name: "veth9" }, { name: "eth0", netnsFd: FileDescriptor.open(path, Open.ReadOnly).fd })
          return "none"
        } catch (error) {
          return isErrno(error, "EEXIST") ? error.message : String(error)
        }
      },
      pod.path,
    )
    expect(refusal).toStartWith('create veth pair "veth9" and "eth0": ')
    expect([await names(host), await names(pod)]).toEqual(before)
  })

  test("our view of a link is that of ip", async () => {
    const ours = await inside(host, ({ route, getLink, listLinks }) => {
      const { index, name, flags, mac, mtu, kind, attributes } = getLink(route, "veth0")
      const { master, operState, linkInfo, txQueueLength, promiscuity } = attributes
      const listed = listLinks(route).map((found) => [found.index, found.name, found.mac, found.mtu])
      return {
        index,
        name,
        flags,
        mac,
        mtu,
        kind,
        master,
        operState,
        slave: linkInfo?.slaveKind,
        txQueueLength,
        promiscuity,
        listed,
      }
    })
    const theirs = await link(host, "veth0")
    const bridge = await link(host, "br0")
    expect(ours).toMatchObject({
      index: theirs?.ifindex as netlink.Ifindex,
      name: "veth0",
      mac: "0a:00:00:00:00:02",
      mtu: 1400,
      kind: "veth",
      master: Number(bridge?.ifindex),
      operState: 6,
      slave: "bridge",
      txQueueLength: 77,
      promiscuity: Number(theirs?.promiscuity),
    })
    const all = await host.json<Shown[]>("ip", ["-j", "link"])
    expect<unknown>(ours.listed).toEqual(
      all.map(({ ifindex, ifname, address, mtu }) => [ifindex, ifname, address, mtu]),
    )
  })

  test("can be changed one thing at a time, or all at once", async () => {
    await inside(host, ({ route, getLink, setLink }) => {
      const veth = getLink(route, "veth0")
      setLink(route, veth, { master: 0 })
      setLink(route, veth, { up: false })
      setLink(route, veth, { name: "veth1", mac: "0a:00:00:00:00:04", mtu: 1300, alias: "pod 1", txQueueLength: 5 })
      setLink(route, veth, { promiscuous: true })
    })
    const changed = await link(host, "veth1")
    expect(changed).toMatchObject({
      address: "0a:00:00:00:00:04",
      mtu: 1300,
      ifalias: "pod 1",
      txqlen: 5,
      promiscuity: 1,
    })
    expect(changed).not.toHaveProperty("master")
    expect(changed?.flags).not.toContain("UP")
    expect(changed?.flags).toContain("PROMISC")
    await inside(host, ({ route, getLink, setLink }) => {
      const { index } = getLink(route, "br0")
      setLink(route, getLink(route, "veth1"), { promiscuous: false, up: true, name: "veth0", master: index })
    })
    expect(await link(host, "veth0")).toMatchObject({ master: "br0", operstate: "UP", promiscuity: 1 })
  })

  test("are found by an alternative name, however long", async () => {
    const alternative = "an-alternative-name-of-veth0"
    await host.exec("ip", ["link", "property", "add", "dev", "veth0", "altname", alternative])
    expect(await inside(host, ({ route, getLink }, name) => getLink(route, name).name, alternative)).toBe("veth0")
  })

  test("with more names than an answer of 32 KiB holds are read whole, one and in a list", async () => {
    const names = Array.from({ length: 320 }, (_, at) => `${at}`.padStart(120, "n"))
    await host.exec("ip", ["link", "add", "many0", "type", "bridge"])
    const read = () =>
      inside(host, ({ route, getLink, listLinks }) => ({
        own: getLink(route, "many0").attributes.altNames,
        listed: listLinks(route, ({ name }) => name === "many0").map(({ attributes }) => attributes.altNames),
        next: getLink(route, "lo").name, // the next answer does not contain a rest of the large one
      }))
    await inside(
      host,
      ({ route, getLink, addAltNames }, all) => {
        for (let at = 0; at < all.length; at += 64) addAltNames(route, getLink(route, "many0"), all.slice(at, at + 64))
      },
      names,
    )
    const { own, listed, next } = await read()
    const [shown] = await host.json<{ altnames: string[] }[]>("ip", ["-j", "link", "show", "dev", "many0"])
    expect(shown?.altnames).toHaveLength(320)
    expect(own).toEqual(shown?.altnames)
    expect(listed).toEqual([own])
    expect(next).toBe("lo")
    await host.exec("ip", ["link", "del", "many0"])
  })

  test("that are ports of a bridge reflect what came from them, and keep apart", async () => {
    await inside(host, ({ route, getLink, setBridgePort }) =>
      setBridgePort(route, getLink(route, "veth0"), { hairpin: 1, isolated: 1 }),
    )
    const [port] = await host.json<Shown[]>("bridge", ["-d", "-j", "link", "show", "dev", "veth0"])
    expect(port).toMatchObject({ master: "br0", hairpin: true, isolated: true, learning: true, flood: true })
    await inside(host, ({ route, getLink, setBridgePort }) =>
      setBridgePort(route, getLink(route, "veth0"), { hairpin: 0 }),
    )
    const [after] = await host.json<Shown[]>("bridge", ["-d", "-j", "link", "show", "dev", "veth0"])
    expect(after).toMatchObject({ hairpin: false, isolated: true })
  })

  test("whose other end is elsewhere name that namespace by its number", async () => {
    const stranger = await host.addContainer("stranger")
    const { number, elsewhere, none } = await inside(
      host,
      ({ route, getLink, findNsid, FileDescriptor, Open }, [peer, other]) => {
        const fd = (file: string) => FileDescriptor.open(file, Open.ReadOnly).fd
        const number = findNsid(route, fd(peer))
        const none = findNsid(route, fd(other))
        return { number, elsewhere: getLink(route, "veth0").attributes.linkNetnsId, none }
      },
      [pod.path, stranger.path] as const,
    )
    expect(number).toBe(Number(elsewhere))
    expect(none).toBeUndefined()
    expect((await link(host, "veth0"))?.link_netnsid).toBe(number)
  })

  test("move to another namespace, and get another name, at once", async () => {
    await inside(
      host,
      ({ route, addVeth, getLink, setLink, FileDescriptor, Open }, path) => {
        addVeth(route, { name: "mover" }, { name: "stayer" })
        setLink(route, getLink(route, "mover"), { netnsFd: FileDescriptor.open(path, Open.ReadOnly).fd, name: "moved" })
      },
      pod.path,
    )
    expect(await names(pod)).toEqual(["eth0", "lo", "moved"])
    expect(await names(host)).not.toContain("mover")
  })

  test("are deleted with their peer, once", async () => {
    const again = await inside(host, ({ route, getLink, deleteLink, isErrno }) => {
      const stayer = getLink(route, "stayer")
      deleteLink(route, stayer)
      try {
        deleteLink(route, stayer)
        return "nothing"
      } catch (error) {
        return isErrno(error, "ENODEV")
      }
    })
    expect(again).toBe(true)
    expect(await names(host)).not.toContain("stayer")
    expect(await names(pod)).toEqual(["eth0", "lo"])
  })
})

describe("addresses", () => {
  test("are added, IPv4 with broadcast and IPv6 usable at once, and listed as ip lists them", async () => {
    const ours = await inside(host, ({ route, getLink, addAddress, listAddresses, ip, IFA_F_TENTATIVE }) => {
      const bridge = getLink(route, "br0")
      addAddress(route, bridge, { ip: ip("10.1.2.1"), prefix: 24 })
      addAddress(route, bridge, { ip: ip("192.0.2.9"), prefix: 32 })
      addAddress(route, bridge, { ip: ip("2001:db8::1"), prefix: 64, noDad: true })
      return listAddresses(route, bridge)
        .filter(({ scope }) => scope === 0)
        .map(({ ip, prefix, flags }) => [[...ip].join(), prefix, (flags & IFA_F_TENTATIVE) !== 0])
    })
    expect(ours).toEqual([
      ["10,1,2,1", 24, false],
      ["192,0,2,9", 32, false],
      ["32,1,13,184,0,0,0,0,0,0,0,0,0,0,0,1", 64, false],
    ])
    const [shown] = await host.json<{ addr_info: Shown[] }[]>("ip", ["-j", "addr", "show", "dev", "br0"])
    expect(shown?.addr_info.filter(({ scope }) => scope === "global")).toMatchObject([
      { local: "10.1.2.1", prefixlen: 24, broadcast: "10.1.2.255" },
      { local: "192.0.2.9", prefixlen: 32 },
      { local: "2001:db8::1", prefixlen: 64, nodad: true },
    ])
    expect(shown?.addr_info[1]).not.toHaveProperty("broadcast")
  })

  test("that are there are EEXIST, and that are not are EADDRNOTAVAIL", async () => {
    const found = await inside(host, ({ route, getLink, addAddress, deleteAddress, ip }) => {
      const bridge = getLink(route, "br0")
      const attempt = (action: () => void) => {
        try {
          action()
          return "no error"
        } catch (error) {
          return String(error)
        }
      }
      return [
        attempt(() => addAddress(route, bridge, { ip: ip("10.1.2.1"), prefix: 24 })),
        attempt(() => addAddress(route, bridge, { ip: ip("2001:db8::1"), prefix: 64 })),
        attempt(() => deleteAddress(route, bridge, { ip: ip("192.0.2.9"), prefix: 32 })),
        attempt(() => deleteAddress(route, bridge, { ip: ip("192.0.2.9"), prefix: 32 })),
        attempt(() => deleteAddress(route, bridge, { ip: ip("2001:db8::9"), prefix: 64 })),
      ]
    })
    expect(found[0]).toMatch(/^NetlinkError: add address 10\.1\.2\.1\/24 to "br0": .*EEXIST/)
    expect(found[1]).toMatch(/^NetlinkError: add address 2001:db8::1\/64 to "br0": .*EEXIST/)
    expect(found[2]).toBe("no error")
    expect(found[3]).toMatch(/^NetlinkError: delete address 192\.0\.2\.9\/32 from "br0": .*EADDRNOTAVAIL/)
    expect(found[4]).toMatch(/EADDRNOTAVAIL/)
  })

  test("by the thousand are all listed, over several datagrams", async () => {
    const count = await inside(host, ({ route, addLink, getLink, addAddress, listAddresses, deleteLink }) => {
      addLink(route, { kind: "bridge", name: "many" })
      const many = getLink(route, "many")
      for (let n = 0; n < 2000; n++) addAddress(route, many, { ip: Uint8Array.of(10, 99, n >> 8, n & 255), prefix: 32 })
      const found = new Set(listAddresses(route, many).map(({ ip }) => ip.join()))
      deleteLink(route, many)
      return found.size
    })
    expect(count).toBe(2000)
  })
})

describe("routes", () => {
  test("of every shape are those that ip shows", async () => {
    await inside(host, ({ route, getLink, addRoute, ip, RouteScope }) => {
      const { index } = getLink(route, "br0")
      const gateway = ip("10.1.2.2")
      addRoute(route, { dst: ip("0.0.0.0"), prefix: 0, gateway })
      addRoute(route, { dst: ip("10.2.0.0"), prefix: 16, index, scope: RouteScope.Link })
      addRoute(route, {
        dst: ip("10.3.0.0"),
        prefix: 16,
        gateway,
        index,
        mtu: 1400,
        advmss: 1360,
        priority: 100,
        preferredSource: ip("10.1.2.1"),
      })
      addRoute(route, { dst: ip("10.4.0.0"), prefix: 16, gateway: ip("192.0.2.1"), index, onLink: true, table: 5000 })
      addRoute(route, { dst: ip("10.5.0.0"), prefix: 16, gateway, table: 100 })
      const hops = [
        { gateway, index },
        { gateway: ip("192.0.2.7"), index, weight: 10, onLink: true },
      ]
      addRoute(route, { dst: ip("10.7.0.0"), prefix: 16, nextHops: hops })
      addRoute(route, {
        dst: ip("2001:db8:3::"),
        prefix: 48,
        gateway: ip("2001:db8::2"),
        index,
        mtu: 1280,
        priority: 7,
      })
      const hops6 = [
        { gateway: ip("2001:db8::11"), index },
        { gateway: ip("2001:db8::12"), index, weight: 2 },
      ]
      addRoute(route, { dst: ip("2001:db8:7::"), prefix: 48, nextHops: hops6 })
      addRoute(route, { dst: ip("2001:db8:5::"), prefix: 48, gateway: ip("fe80::1"), index, table: 5000 })
    })
    const shown = await routes("route", "show", "table", "all")
    const of = (dst: string) => shown.find((route) => route.dst === dst)
    expect(of("default")).toMatchObject({ gateway: "10.1.2.2", dev: "br0", protocol: "boot", scope: "global" })
    expect(of("10.2.0.0/16")).toMatchObject({ dev: "br0", scope: "link", table: "main" })
    expect(of("10.3.0.0/16")).toMatchObject({
      gateway: "10.1.2.2",
      prefsrc: "10.1.2.1",
      metric: 100,
      metrics: [{ mtu: 1400, advmss: 1360 }],
    })
    expect(of("10.4.0.0/16")).toMatchObject({ gateway: "192.0.2.1", table: "5000", flags: ["onlink"] })
    expect(of("10.5.0.0/16")).toMatchObject({ gateway: "10.1.2.2", table: "100" })
    expect(of("10.7.0.0/16")?.nexthops).toEqual([
      { gateway: "10.1.2.2", dev: "br0", weight: 1, flags: [] },
      { gateway: "192.0.2.7", dev: "br0", weight: 10, flags: ["onlink"] },
    ])
    expect(of("2001:db8:3::/48")).toMatchObject({ gateway: "2001:db8::2", metric: 7, metrics: [{ mtu: 1280 }] })
    expect(of("2001:db8:7::/48")?.nexthops).toMatchObject([
      { gateway: "2001:db8::11", dev: "br0", weight: 1 },
      { gateway: "2001:db8::12", dev: "br0", weight: 2 },
    ])
    expect(of("2001:db8:5::/48")).toMatchObject({ gateway: "fe80::1", table: "5000" })
  })

  test("are listed by us as by ip", async () => {
    const listOurs = () =>
      inside(host, ({ route, listRoutes, AF_INET, AF_INET6 }) =>
        [...listRoutes(route, AF_INET), ...listRoutes(route, AF_INET6)].map(
          ({ prefix, table, priority, mtu, onLink, nextHops, protocol, scope }) =>
            [prefix, table, priority ?? 0, mtu ?? 0, onLink ?? false, nextHops?.length ?? 0, protocol, scope].join(),
        ),
      )
    // The kernel adds IPv6 routes shortly after a link has come up.
    let [ours, shown]: [string[], Shown[]] = [[], []]
    const areSteady = async () => {
      ours = (await listOurs()).sort()
      shown = await routes("-N", "route", "show", "table", "all")
      return (await listOurs()).sort().join() === ours.join()
    }
    await waitFor(areSteady, "the routes to stay as they are")
    const numbers: Record<string, number> = {
      main: 254,
      local: 255,
      kernel: 2,
      boot: 3,
      link: 253,
      host: 254,
      global: 0,
    }
    const number = (text: unknown) => numbers[String(text)] ?? Number(text)
    const theirs = shown.map(({ dst, table, metric, metrics, flags, nexthops, protocol, scope }) => {
      const address = String(dst)
      const whole = address.includes(":") ? 128 : 32
      const prefix = address === "default" ? 0 : Number(address.split("/")[1] ?? whole)
      const mtu = (metrics as { mtu?: number }[] | undefined)?.[0]?.mtu ?? 0
      const hops = (nexthops as unknown[] | undefined)?.length ?? 0
      const onLink = (flags as string[]).includes("onlink")
      return [prefix, number(table), metric ?? 0, mtu, onLink, hops, number(protocol), number(scope)].join()
    })
    expect(ours).toEqual(theirs.sort())
  })

  test("replace and append do what ip does", async () => {
    await inside(host, ({ route, addRoute, ip }) => {
      const dst = { dst: ip("10.8.0.0"), prefix: 16 }
      addRoute(route, { ...dst, gateway: ip("10.1.2.3") })
      addRoute(route, { ...dst, gateway: ip("10.1.2.4") }, "replace")
      addRoute(route, { ...dst, gateway: ip("10.1.2.5") }, "append")
    })
    const shown = await routes("route", "show", "10.8.0.0/16")
    expect(shown.map(({ gateway }) => gateway)).toEqual(["10.1.2.4", "10.1.2.5"])
  })

  test("the same route twice is EEXIST, an unreachable gateway is refused in the kernel's words", async () => {
    const refusals = await inside(host, ({ route, addRoute, ip }) => {
      const attempt = (gateway: string) => {
        try {
          addRoute(route, { dst: ip("10.3.0.0"), prefix: 16, gateway: ip(gateway), priority: 100 })
          return "no error"
        } catch (error) {
          return String(error)
        }
      }
      return [attempt("10.1.2.2"), attempt("203.0.113.1")]
    })
    expect(refusals[0]).toMatch(/^NetlinkError: add route 10\.3\.0\.0\/16 via 10\.1\.2\.2: .*EEXIST/)
    expect(refusals[1]).toBe(
      "NetlinkError: add route 10.3.0.0/16 via 203.0.113.1: Nexthop has invalid gateway (ENETUNREACH)",
    )
  })

  test("are deleted, of any origin, once, in their table, and one of several ways leaves the others", async () => {
    await host.exec("ip", ["route", "add", "10.9.0.0/16", "via", "10.1.2.2", "proto", "static"])
    const again = await inside(host, ({ route, deleteRoute, ip, isErrno }) => {
      deleteRoute(route, { dst: ip("10.9.0.0"), prefix: 16 })
      deleteRoute(route, { dst: ip("10.4.0.0"), prefix: 16, table: 5000 })
      deleteRoute(route, { dst: ip("2001:db8:7::"), prefix: 48 })
      deleteRoute(route, { dst: ip("10.8.0.0"), prefix: 16, gateway: ip("10.1.2.4") })
      try {
        deleteRoute(route, { dst: ip("10.9.0.0"), prefix: 16 })
        return "nothing"
      } catch (error) {
        return isErrno(error, "ESRCH")
      }
    })
    expect(again).toBe(true)
    const left = (await routes("route", "show", "table", "all")).map(({ dst }) => dst)
    expect(left).not.toContain("10.9.0.0/16")
    expect(left).not.toContain("10.4.0.0/16")
    expect(left).not.toContain("2001:db8:7::/48")
    expect(left).toContain("10.7.0.0/16")
    expect((await routes("route", "show", "10.8.0.0/16")).map(({ gateway }) => gateway)).toEqual(["10.1.2.5"])
  })
})

test("neighbors are listed as ip has set them", async () => {
  const set = (address: string, mac: string) =>
    host.exec("ip", ["neigh", "replace", address, "lladdr", mac, "dev", "br0"])
  await set("10.1.2.50", "0a:00:00:00:00:50")
  await set("2001:db8::50", "0a:00:00:00:00:52")
  const listed = await inside(host, ({ route, getLink, listNeighbours, AF_INET, AF_INET6, NeighbourState }) => {
    const { index } = getLink(route, "br0")
    return [...listNeighbours(route, AF_INET), ...listNeighbours(route, AF_INET6)]
      .filter(({ state }) => state === NeighbourState.Permanent)
      .map((neighbour) => [neighbour.ip.length, neighbour.mac, neighbour.index === index])
  })
  expect(listed).toEqual([
    [4, "0a:00:00:00:00:50", true],
    [16, "0a:00:00:00:00:52", true],
  ])
})

test("the tables of neighbors are those that ip tells, with their entries and limits", async () => {
  await host.exec("ip", ["link", "add", "nt0", "type", "bridge"])
  for (const address of ["10.9.1.1", "10.9.1.2", "2001:db8:9::1", "2001:db8:9::2"])
    await host.exec("ip", ["neigh", "add", address, "lladdr", "0a:00:00:00:00:51", "dev", "nt0"])
  /** Returns the sum of `table_fulls`, the last column of a table with a line for each processor. */
  const refused = async (table: string) =>
    (await Bun.file(`/proc/net/stat/${table}`).text())
      .trim()
      .split("\n")
      .slice(1)
      .reduce((sum, line) => sum + Number.parseInt(line.split(/\s+/).at(-1) ?? "", 16), 0)
  const before = await Promise.all(["arp_cache", "ndisc_cache"].map(refused))
  const tables = await inside(host, ({ route, listNeighbourTables }) => listNeighbourTables(route))
  const after = await Promise.all(["arp_cache", "ndisc_cache"].map(refused))
  const { stdout } = await host.exec("ip", ["ntable", "show"])
  const limits = [...stdout.matchAll(/inet6? (?:arp_cache|ndisc_cache) \n\s+thresh1 \d+ thresh2 \d+ thresh3 (\d+)/g)]
  expect(tables.map(({ family, most }) => [family, most])).toEqual([
    [2, Number(limits[0]?.[1])],
    [10, Number(limits[1]?.[1])],
  ])
  // The counts include entries of the machine's other namespaces.
  expect(tables.every(({ entries }) => entries >= 2)).toBe(true)
  for (const [at, table] of tables.entries()) {
    expect(table.refused).toBeGreaterThanOrEqual(before[at] as number)
    expect(table.refused).toBeLessThanOrEqual(after[at] as number)
  }
})

test("a bridge's own MAC is local, one that was learned leads to its port, and others are unknown", async () => {
  const names = "ip link add fdb0 type bridge; ip link add fdb1 type veth peer name fdb2; ip link set fdb1 master fdb0"
  await host.exec("sh", ["-ec", `${names}; bridge fdb add 0a:00:00:00:00:77 dev fdb1 master static`])
  const found = await inside(host, ({ route, getLink, findForwardingEntry }) => {
    const bridge = getLink(route, "fdb0")
    const look = (mac: string) => findForwardingEntry(route, bridge, mac)
    const port = getLink(route, "fdb1").index
    return [
      look(bridge.mac)?.isLocal,
      look("0a:00:00:00:00:77")?.index === port,
      look("0a:00:00:00:00:78") === undefined,
    ]
  })
  expect(found).toEqual([true, true, true])
})

describe("events", () => {
  test("wake up who waits for a link that another program makes", async () => {
    const waiting = inside(host, ({ route, RouteSocket, RouteGroup, findLink }) => {
      const events = RouteSocket.subscribe(RouteGroup.Link)
      const start = performance.now()
      // The event cannot be missed: the socket subscribes before the link is created.
      do events.nextEvents(60_000)
      while (!findLink(route, "late") && performance.now() - start < 60_000)
      return { found: findLink(route, "late")?.kind, waitedMs: performance.now() - start }
    })
    // Columns of /proc/net/netlink: address, protocol (0 is rtnetlink), port, groups as a hexadecimal mask
    await waitFor(
      async () => /^\S+\s+0\s+\d+\s+00000001\s/m.test((await host.exec("cat", ["/proc/net/netlink"])).stdout),
      "the process inside to subscribe to links",
    )
    await host.exec("ip", ["link", "add", "late", "type", "bridge"])
    const { found, waitedMs } = await waiting
    expect(found).toBe("bridge")
    expect(waitedMs).toBeLessThan(60_000)
  })

  test("carry the link, or say that there were none in time", async () => {
    const outcome = await inside(host, ({ route, RouteSocket, RouteGroup, getLink, setLink, readLink }) => {
      const events = RouteSocket.subscribe(RouteGroup.Link)
      const start = performance.now()
      const none = events.nextEvents(50) === undefined && performance.now() - start >= 49
      setLink(route, getLink(route, "br0"), { alias: "heard" })
      const heard = events.nextEvents(1000)?.map((event) => readLink(event).attributes.alias)
      return { none, heard }
    })
    expect(outcome).toEqual({ none: true, heard: ["heard"] })
  })

  test("that did not fit into the socket's buffer are an empty list, and the next ones come again", async () => {
    const outcome = await inside(host, ({ route, RouteSocket, RouteGroup, getLink, setLink, setSocketOption }) => {
      const events = RouteSocket.subscribe(RouteGroup.Link)
      setSocketOption(events.fd, 1, 8, 1) // SOL_SOCKET, SO_RCVBUF: the smallest buffer that the kernel allows
      const bridge = getLink(route, "br0")
      for (let n = 0; n < 200; n++) setLink(route, bridge, { alias: `change ${n}` })
      let lost = 0
      for (let found = events.nextEvents(50); found; found = events.nextEvents(50)) if (found.length === 0) lost++
      setLink(route, bridge, { alias: "after" })
      return { lost: lost > 0, after: events.nextEvents(1000)?.length }
    })
    expect(outcome).toEqual({ lost: true, after: 1 })
  })
})
