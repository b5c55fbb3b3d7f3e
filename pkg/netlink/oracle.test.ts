/**
 * The same messages in node-netlink, a second implementation by other people: what we write it reads, and what it
 * writes we read. Where both are silent about a matter the captured bytes in the other tests speak.
 */
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import * as ifla from "netlink/dist/rt/ifla"
import * as rt from "netlink/dist/rt/structs"
import { AttrStream, type StreamData } from "netlink/dist/structs"
import { AF_INET, AF_INET6 } from "../types/mod.ts"
import { addAddress, listAddresses } from "./addresses.ts"
import { addLink, addVeth, setLink } from "./link-changes.ts"
import { bridgeData, bridgePortData, linkKinds } from "./link-table.ts"
import { type Ifindex, listLinks } from "./links.ts"
import { addRoute, listRoutes, type RouteSpec } from "./routes.ts"
import { addRule, listRules, type Rule } from "./rules.ts"
import { linkNumber, listing, requestOf } from "./testing.ts"

/** What node-netlink writes. */
function written(format: (out: AttrStream) => void): Uint8Array {
  const out = new AttrStream()
  format(out)
  return new Uint8Array(Buffer.concat(out.bufs))
}
const stream = (data: StreamData) => written((out) => out.emit(data))

/** An object without what is undefined: node-netlink takes undefined for a value. */
function present<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined)) as T
}
const plain = (found: Buffer | undefined) => (found ? new Uint8Array(found) : undefined)

const u32 = fc.nat(0xffffffff)
const index = fc.integer({ min: 1, max: 0x7fffffff }).map((number) => number as Ifindex)
const name = fc.stringMatching(/^[a-z][a-z0-9]{0,14}$/)
const v4 = fc.uint8Array({ minLength: 4, maxLength: 4 })
const v6 = fc.uint8Array({ minLength: 16, maxLength: 16 })
const ip = fc.oneof(v4, v6)
const macBytes = fc.uint8Array({ minLength: 6, maxLength: 6 })
const macText = (bytes: Uint8Array) => bytes.toHex().replace(/..(?=.)/g, "$&:")
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })
const familyOf = (address: Uint8Array) => (address.length === 4 ? AF_INET : AF_INET6)

test("links", () => {
  const spec = fc.record({
    name,
    mac: optional(macBytes),
    mtu: optional(u32),
    master: optional(index),
    parent: optional(index),
    txQueueLength: optional(u32),
    netnsFd: optional(fc.nat(1000)),
    data: optional(fc.record({ mode: u32, flags: fc.nat(0xffff) })),
    up: fc.boolean(),
  })
  fc.assert(
    fc.property(spec, ({ mac, ...others }) => {
      const given = present({ ...others, kind: "macvlan" as const, mac: mac && macText(mac) })
      const { payload } = requestOf((route) => addLink(route, given))
      const { data, attrs } = rt.parseLinkMessage(Buffer.from(payload))
      expect(data).toMatchObject({ family: 0, index: 0, flags: given.up ? { up: true } : {} })
      expect({
        name: attrs.ifname,
        mac: plain(attrs.address),
        mtu: attrs.mtu,
        master: attrs.master,
        parent: attrs.link?.readInt32LE(),
        txQueueLength: attrs.txqlen,
        netnsFd: attrs.netNsFd,
      }).toEqual({
        name: others.name,
        mac,
        mtu: others.mtu,
        master: others.master,
        parent: others.parent,
        txQueueLength: others.txQueueLength,
        netnsFd: others.netnsFd,
      })
      const info = ifla.parseInfo(attrs.linkinfo ?? Buffer.of())
      const attributes = info.data && linkKinds.macvlan.decode(info.data)
      expect({ kind: info.kind, data: attributes }).toEqual({ kind: "macvlan", data: others.data })
    }),
  )
})

test("links that the kernel describes", () => {
  const linkOf = fc.record({ index, ifname: name, mtu: u32, address: macBytes, kind: name, operstate: fc.nat(6) })
  fc.assert(
    fc.property(linkOf, ({ index, kind, address, ...attrs }) => {
      const linkinfo = Buffer.from(stream(ifla.formatInfo({ kind })))
      const payload = written((out) =>
        rt.formatLinkMessage(
          {
            kind: "link",
            data: { index, type: 1, flags: { up: true, running: true } },
            attrs: { ...attrs, address: Buffer.from(address), linkinfo },
          },
          out,
        ),
      )
      const [link] = listLinks(listing(payload))
      expect(link).toMatchObject({
        index,
        name: attrs.ifname,
        mtu: attrs.mtu,
        mac: macText(address),
        kind,
        flags: 0x41,
      })
      expect(link?.attributes.operState).toBe(attrs.operstate)
    }),
  )
})

test("the peer of a veth pair", () => {
  fc.assert(
    fc.property(name, macBytes, u32, fc.nat(1000), (peer, mac, mtu, netnsFd) => {
      const far = { name: peer, mac: macText(mac), mtu, netnsFd }
      const { payload } = requestOf((route) => addVeth(route, { name: "v0" }, far))
      const { attrs } = rt.parseLinkMessage(Buffer.from(payload))
      const info = ifla.parseInfo(attrs.linkinfo ?? Buffer.of())
      const inside = ifla.parseVethInfo(info.data ?? Buffer.of()).peer ?? Buffer.of()
      const found = rt.parseLinkMessage(inside).attrs
      expect({ ...found, address: plain(found.address) }).toEqual({
        ifname: peer,
        address: mac,
        mtu,
        netNsFd: netnsFd,
      })
    }),
  )
})

test("changes of a link", () => {
  fc.assert(
    fc.property(index, fc.boolean(), fc.boolean(), fc.string({ maxLength: 20 }), (number, up, promisc, alias) => {
      fc.pre(!alias.includes("\0"))
      const link = linkNumber(number, "x")
      const { payload } = requestOf((route) => setLink(route, link, { up, promiscuous: promisc, alias }))
      const { data, attrs } = rt.parseLinkMessage(Buffer.from(payload))
      expect(data.change).toEqual({ up: true, promisc: true })
      expect(data.flags).toEqual({ ...(up ? { up } : {}), ...(promisc ? { promisc } : {}) })
      expect({ index: data.index, alias: attrs.ifalias }).toEqual({ index: number, alias })
    }),
  )
})

test("bridges and their ports", () => {
  const given = { vlanFiltering: 6, vlanDefaultPvid: 11 }
  const bridge = ifla.parseBridge(Buffer.from(bridgeData.encode(given)))
  const numbers = Object.entries(bridge).map(([key, value]) => [key, (value as Buffer).readUInt8()])
  expect(Object.fromEntries(numbers)).toEqual(given)
  const port = { hairpin: 4, isolated: 10 }
  const theirs = { mode: port.hairpin, isolated: Buffer.of(port.isolated) }
  expect<unknown>(ifla.parseBridgePort(Buffer.from(bridgePortData.encode(port)))).toEqual(theirs)
  expect(bridgePortData.decode(stream(ifla.formatBridgePort(theirs)))).toEqual(port)
})

describe("addresses", () => {
  test("that we add", () => {
    fc.assert(
      fc.property(ip, fc.nat(32), index, fc.boolean(), (address, prefix, number, noDad) => {
        const given = { ip: address, prefix, noDad }
        const { payload } = requestOf((route) => addAddress(route, linkNumber(number, "x"), given))
        const { data, attrs } = rt.parseAddressMessage(Buffer.from(payload))
        const nodad = noDad && address.length === 16 ? { nodad: true as const } : {}
        expect(data).toEqual({ family: familyOf(address), prefixlen: prefix, flags: nodad, scope: 0, index: number })
        expect(plain(attrs.local)).toEqual(address)
        expect(plain(attrs.address)).toEqual(address)
        expect(attrs.flags ?? {}).toEqual(nodad)
      }),
    )
  })

  test("that the kernel lists", () => {
    fc.assert(
      fc.property(ip, ip, fc.nat(32), index, fc.constantFrom(0, 253, 254), (local, peer, prefixlen, number, scope) => {
        const payload = written((out) =>
          rt.formatAddressMessage(
            {
              kind: "address",
              data: { family: familyOf(local), prefixlen, flags: {}, scope, index: number },
              attrs: {
                address: Buffer.from(peer),
                local: Buffer.from(local),
                label: "x",
                flags: { permanent: true, noprefixroute: true },
              },
            },
            out,
          ),
        )
        expect(listAddresses(listing(payload))).toEqual([
          { ip: local, prefix: prefixlen, index: number, flags: 0x280, scope },
        ])
      }),
    )
  })
})

describe("routes", () => {
  const length = fc.constantFrom(4, 16)
  const spec = length.chain((size) => {
    const address = fc.uint8Array({ minLength: size, maxLength: size })
    return fc.record({
      dst: address,
      prefix: fc.integer({ min: 1, max: size * 8 }),
      gateway: optional(address),
      index: optional(index),
      priority: optional(u32),
      preferredSource: optional(address),
      mtu: optional(u32),
      advmss: optional(u32),
      table: fc.integer({ min: 1, max: 0xffffffff }),
      scope: fc.constantFrom(0, 200, 253, 254),
      onLink: fc.boolean(),
    })
  })
  /** What node-netlink knows of a route, in our words. */
  function read({ data, attrs }: rt.RouteMessage) {
    const scopes: Record<string, number> = rt.RouteScope as unknown as Record<string, number>
    return {
      family: data.family,
      dst: plain(attrs.dst),
      prefix: data.dstLen,
      gateway: plain(attrs.gateway),
      index: attrs.oif,
      priority: attrs.priority,
      preferredSource: plain(attrs.prefsrc),
      mtu: attrs.metrics?.mtu?.readUInt32LE(),
      advmss: attrs.metrics?.advmss?.readUInt32LE(),
      table: attrs.table ?? data.table,
      scope: typeof data.scope === "string" ? scopes[data.scope] : data.scope,
      type: data.type,
      protocol: data.protocol,
    }
  }

  test("that we add", () => {
    fc.assert(
      fc.property(spec, ({ onLink, ...given }) => {
        const { payload } = requestOf((route) => addRoute(route, present({ ...given, onLink }) as RouteSpec))
        const message = rt.parseRouteMessage(Buffer.from(payload))
        const family = familyOf(given.dst)
        expect<unknown>(read(message)).toEqual({ ...given, family, type: "UNICAST", protocol: "BOOT" })
        expect(message.data.flags).toEqual(onLink ? { __unknown: 4 } : {}) // RTNH_F_ONLINK, of which it knows no name
      }),
    )
  })

  test("that the kernel lists", () => {
    const number = (value: number | undefined) => value !== undefined && Buffer.from(new Uint32Array([value]).buffer)
    fc.assert(
      fc.property(spec, ({ onLink, ...given }) => {
        const metrics = Object.fromEntries(
          [["mtu", number(given.mtu)] as const, ["advmss", number(given.advmss)] as const].filter(([, value]) => value),
        )
        const attrs: Record<string, unknown> = present({
          dst: Buffer.from(given.dst),
          gateway: given.gateway && Buffer.from(given.gateway),
          oif: given.index,
          priority: given.priority,
          prefsrc: given.preferredSource && Buffer.from(given.preferredSource),
          metrics: Object.keys(metrics).length > 0 ? metrics : undefined,
          table: given.table,
        })
        const payload = written((out) =>
          rt.formatRouteMessage(
            {
              kind: "route",
              data: {
                family: familyOf(given.dst),
                dstLen: given.prefix,
                table: 252,
                protocol: 4,
                scope: given.scope,
                type: 1,
                flags: onLink ? { __unknown: 4 } : {},
              },
              attrs,
            },
            out,
          ),
        )
        const family = familyOf(given.dst)
        expect<unknown>(listRoutes(listing(payload), family)).toEqual([
          present({ ...given, protocol: 4, type: 1, flags: onLink ? 4 : 0, onLink: onLink || undefined }),
        ])
      }),
    )
  })

  test("of several ways", () => {
    const hop = fc.record({
      gateway: v4,
      index,
      weight: fc.integer({ min: 1, max: 256 }),
      onLink: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(hop, { minLength: 1, maxLength: 5 }), (nextHops) => {
        const dst = Uint8Array.of(10, 0, 0, 0)
        const { payload } = requestOf((route) => addRoute(route, { dst, prefix: 8, nextHops }))
        const { attrs } = rt.parseRouteMessage(Buffer.from(payload))
        const found = []
        for (let rest = attrs.multipath ?? Buffer.of(); rest.length > 0; ) {
          const header = rt.parseRouteNextHop(rest.subarray(0, rt.__LENGTH_RouteNextHop))
          const inside = rt.parseRouteAttrs(rest.subarray(rt.__LENGTH_RouteNextHop, header.len))
          found.push({
            gateway: plain(inside.gateway),
            index: header.ifindex,
            weight: (header.hops ?? 0) + 1,
            onLink: header.flags?.onlink === true,
          })
          rest = rest.subarray(header.len)
        }
        expect<unknown>(found).toEqual(nextHops)
      }),
    )
  })
})

describe("rules", () => {
  const rule = fc.record({
    src: optional(v4),
    dst: optional(v4),
    inputInterface: optional(name),
    outputInterface: optional(name),
    mark: optional(u32),
    mask: optional(u32),
    priority: optional(u32),
    table: fc.integer({ min: 1, max: 0xffffffff }),
  })

  test("that we add", () => {
    fc.assert(
      fc.property(rule, fc.nat(32), fc.nat(32), ({ src, dst, ...others }, srcPrefix, dstPrefix) => {
        const given = present({
          ...others,
          family: AF_INET,
          src: src && { ip: src, prefix: srcPrefix },
          dst: dst && { ip: dst, prefix: dstPrefix },
        }) as Rule
        const { data, attrs } = rt.parseRuleMessage(Buffer.from(requestOf((route) => addRule(route, given)).payload))
        expect<unknown>(data).toMatchObject({
          family: AF_INET,
          srcLen: src ? srcPrefix : 0,
          dstLen: dst ? dstPrefix : 0,
          table: given.table < 256 ? given.table : 0,
          action: "toTbl",
          flags: {},
        })
        expect<unknown>({ ...attrs, src: plain(attrs.src), dst: plain(attrs.dst) }).toEqual({
          ...present({
            iifname: given.inputInterface,
            oifname: given.outputInterface,
            fwmark: given.mark,
            fwmask: given.mask,
            priority: given.priority,
            table: given.table,
          }),
          src,
          dst,
        })
      }),
    )
  })

  test("that the kernel lists", () => {
    fc.assert(
      fc.property(rule, fc.nat(32), ({ src, dst, ...others }, prefix) => {
        const attrs: Record<string, unknown> = present({
          src: src && Buffer.from(src),
          dst: dst && Buffer.from(dst),
          iifname: others.inputInterface,
          oifname: others.outputInterface,
          fwmark: others.mark,
          fwmask: others.mask,
          priority: others.priority,
          table: others.table,
        })
        const data = { family: AF_INET, srcLen: prefix, dstLen: prefix, table: 252, action: 1 }
        const payload = written((out) => rt.formatRuleMessage({ kind: "rule", data, attrs }, out))
        expect<unknown>(listRules(listing(payload), AF_INET)).toEqual([
          present({ ...others, family: AF_INET, src: src && { ip: src, prefix }, dst: dst && { ip: dst, prefix } }),
        ])
      }),
    )
  })
})
