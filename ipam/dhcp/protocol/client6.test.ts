import { describe, expect, test } from "bun:test"
import { concat } from "../../../pkg/netlink/mod.ts"
import { fromHex, toHex } from "./bytes.ts"
import { readPacket } from "./frames.ts"
import { leaseOf6 } from "./lease6.ts"
import { makeDuid } from "./message6.ts"
import * as captured from "./testing/captured.ts"
import { answer6, association6, config6, ip, serverDuid, TestClient } from "./testing/link.ts"

const [advertise, reply] = [2, 7]

/** Returns the sent frames: DHCPv6 messages in hexadecimal, and "RS" for router solicitations. */
function sent(client: TestClient): string[] {
  return client.step.send.map((frame) => {
    const packet = readPacket(frame)
    if (packet?.kind !== "udp") return "RS"
    expect([packet.from.port, packet.to.port, packet.to.mac]).toEqual([546, 547, "33:33:00:01:00:02"])
    return toHex(packet.payload)
  })
}

const client6 = () => new TestClient(config6)

/** Returns a client with 2001:db8::5b that has received the captured router advertisement. */
function bound(): TestClient {
  const client = client6()
  client.start()
  client.frame(captured.routerAdvertisement)
  client.frame(answer6(client.state, advertise, [association6({})]))
  client.frame(answer6(client.state, reply, [association6({})]))
  expect(client.state.phase).toBe("bound")
  return client
}

const xid = "800000"
const clientId = `00010012${config6.clientId}`
const server = `0002000a${serverDuid}`
const elapsed = "000800020000"
const empty = "0003000c000000010000000000000000"
const held = `000300280000000100000000000000000005001820010db800000000000000000000005b0000000000000000`
const asks = "0006000800170018" + "0038001f"

describe("a client of DHCPv6 without a lease", () => {
  test("solicits, requests what was advertised, and is bound by the reply", () => {
    const client = client6()
    client.start()
    expect(sent(client)).toEqual(["RS", `01${xid}${clientId}${elapsed}${empty}${asks}`])
    client.frame(captured.routerAdvertisement)
    client.frame(answer6(client.state, advertise, [association6({})]))
    expect(sent(client)).toEqual([`03${xid}${clientId}${server}${elapsed}${held}${asks}`])
    client.frame(answer6(client.state, reply, [association6({}), [23, ip("2001:db8::53")]]))
    expect(client.step.changes).toMatchObject([
      {
        kind: "bound",
        lease: {
          address: "2001:db8::5b/64",
          gateway: "fe80::858:aff:fe01:201",
          routes: [{ dst: "::/0", gw: "fe80::858:aff:fe01:201" }],
          mtu: 1500,
          nameservers: ["2001:db8::53"],
          search: ["six.example"],
          server: "fe80::1",
          serverDuid,
          renewAt: 1_049_219,
          rebindAt: 1_078_750,
          expiresAt: 1_120_000,
        },
      },
    ])
    expect(client.step.listen).toBe(false)
  })

  test("waits for a router a little, asks for it again, and goes on without one in the end", () => {
    const client = client6()
    client.start()
    client.frame(answer6(client.state, advertise, [association6({})]))
    client.frame(answer6(client.state, reply, [association6({})]))
    expect([sent(client), client.state.phase]).toEqual([["RS"], "routing"])
    for (let count = 0; count < 3; count++) {
      client.wait()
      expect(sent(client)).toEqual(["RS"])
    }
    client.wait()
    expect(client.now).toBe(1_004_000)
    expect(client.step.changes).toMatchObject([{ kind: "bound", lease: { address: "2001:db8::5b/128", routes: [] } }])
  })

  test("solicits again after 1, 2, 4 … seconds, a little later by chance, and pauses", () => {
    const client = client6()
    client.start()
    const waits: number[] = []
    for (let now = client.now; client.state.phase === "selecting"; now = client.now) {
      client.wait()
      waits.push(client.now - now)
    }
    expect(waits).toEqual([1050, 2100, 4200, 8400, 16_800])
    expect(client.state.phase).toBe("waiting")
    expect(client.step.listen).toBe(false)
  })

  // RFC 8415, 21.9: the elapsed time is in hundredths of a second.
  test("says how long it has been asking", () => {
    const client = client6()
    client.start()
    client.wait()
    expect(sent(client).at(-1)).toContain("000800020069") // 1050 ms
    client.wait()
    expect(sent(client).at(-1)).toContain("00080002013b")
  })

  test("ignores the answer of another server than the one that it asked", () => {
    const client = client6()
    client.start()
    client.frame(captured.routerAdvertisement)
    client.frame(answer6(client.state, advertise, [association6({})]))
    client.frame(answer6(client.state, reply, [association6({})], "00030001020304050608"))
    expect(client.state.phase).toBe("requesting")
    client.frame(answer6(client.state, reply, [association6({})]))
    expect(client.state.phase).toBe("bound")
  })

  test("goes on to solicit when a server has no addresses, and says so", () => {
    const client = client6()
    client.start()
    client.frame(answer6(client.state, advertise, [[13, fromHex("00026e6f6e65")]]))
    expect(client.state).toMatchObject({ phase: "selecting", seen: 'ADVERTISE from fe80::1: status 2: "none"' })
    client.frame(answer6(client.state, advertise, [association6({}, [[13, fromHex("0002")]])]))
    expect(client.state).toMatchObject({ phase: "selecting", seen: "ADVERTISE from fe80::1: status 2" })
    client.frame(answer6(client.state, advertise, [association6({})]))
    expect(client.state.phase).toBe("requesting")
  })

  test("ignores frames that are not for it", () => {
    const client = client6()
    client.start()
    const { state } = client
    for (const frame of [
      answer6({ ...state, xid: state.xid + 1 }, advertise, [association6({})]),
      answer6({ ...state, config: { ...config6, clientId: makeDuid("other") } }, advertise, [association6({})]),
      answer6(state, reply, [association6({})]),
      captured.advertise,
    ]) {
      client.frame(frame)
      expect(client.state).toEqual(state)
    }
  })

  test.each([
    ["T1 after T2", association6({ t1: 90, t2: 80 })],
    ["a preferred lifetime beyond the valid one", association6({ preferred: 200 })],
    ["no lifetime", association6({ preferred: 0, valid: 0 })],
    ["a multicast address", association6({ address: "ff02::1" })],
    ["an address of the link", association6({ address: "fe80::5b" })],
    ["::1", association6({ address: "::1" })],
    ["half an address", association6({}, [[5, new Uint8Array(20)]])],
  ])("takes no address with %s", (_what, association) => {
    const client = client6()
    client.start()
    client.frame(answer6(client.state, advertise, [association]))
    expect(client.state.phase).toBe("selecting")
  })

  // RFC 5908: suboption 1 is the address of a server, 2 that of a group, 3 a name.
  test("has the addresses of servers of NTP", () => {
    const [server, group, short] = ["2001:db8::7", "ff05::101", "2001:db8::8"].map(ip)
    const options = concat([
      concat([fromHex("00010010"), server as Uint8Array]),
      concat([fromHex("00020010"), group as Uint8Array]),
      concat([fromHex("0001000f"), (short as Uint8Array).subarray(1)]),
    ])
    const client = client6()
    client.start()
    client.frame(captured.routerAdvertisement)
    client.frame(answer6(client.state, advertise, [association6({})]))
    client.frame(answer6(client.state, reply, [association6({}), [56, options]]))
    expect(client.step.changes).toMatchObject([{ kind: "bound", lease: { ntp: ["2001:db8::7"] } }])
  })

  test("names the missing part of an answer", () => {
    const client = client6()
    client.start()
    client.frame(answer6(client.state, advertise, []))
    expect(client.state.seen).toBe("ADVERTISE from fe80::1: it has no address")
    const options = [association6({})]
    const server = { ip: ip("fe80::1"), mac: "0a:58:0a:01:02:01" }
    expect(leaseOf6({ type: advertise, xid: 1, options } as never, server, { now: 0, random: () => 0 })).toEqual({
      why: "it has no server identifier",
    })
  })
})

describe("a client of DHCPv6 with a lease", () => {
  test("renews it with its server from T1, and with any from T2, until it ends", () => {
    const client = bound()
    client.wait()
    expect(sent(client)).toEqual(["RS", `05${xid}${clientId}${server}${elapsed}${held}${asks}`])
    client.wait()
    expect(client.now).toBe(1_049_219 + 10_500)
    client.wait()
    expect(client.now).toBe(1_078_750)
    expect(sent(client)[1]).toBe(`06${xid}${clientId}${elapsed}${held}${asks}`)
    while (client.state.lease) client.wait()
    expect(client.now).toBe(1_120_000)
    expect(client.step.changes).toMatchObject([{ kind: "lost", why: "the lease of 2001:db8::5b has expired" }])
    expect(sent(client)[1]?.slice(0, 2)).toBe("01")
  })

  test("reports the changes of a renewal, with those of the router", () => {
    const client = bound()
    const before = client.state.lease
    client.wait()
    client.frame(answer6(client.state, reply, [association6({ address: "2001:db8::5c" })]))
    expect(client.state.phase).toBe("routing") // the last router advertisement is too old
    client.frame(captured.routerAdvertisement)
    expect(client.step.changes).toEqual([{ kind: "renewed", lease: client.state.lease, before } as never])
    expect(client.state.lease).toMatchObject({ address: "2001:db8::5c/64", gateway: "fe80::858:aff:fe01:201" })
  })

  test("keeps its address when the server has several, and has no router when that one's lifetime has passed", () => {
    const client = bound()
    client.wait()
    const inside = ["2001:db8::99", "2001:db8::5b"].map((text) => {
      return [5, concat([ip(text), fromHex("0001000000010000")])] as const
    })
    client.now += 3_600_000_000
    client.state = { ...client.state, lease: { ...client.state.lease, expiresAt: client.now + 1000 } as never }
    client.frame(answer6(client.state, reply, [association6({}, inside)]))
    while (client.state.phase === "routing") client.wait()
    expect(client.state.lease?.address).toBe("2001:db8::5b/64")
    expect(client.state.lease).not.toHaveProperty("gateway")
  })

  test("requests it again when the server does not know it (NoBinding)", () => {
    const client = bound()
    client.wait()
    client.frame(answer6(client.state, reply, [association6({}, [[13, fromHex("0003")]])]))
    expect(sent(client).at(-1)).toBe(`03${xid}${clientId}${server}${elapsed}${held}${asks}`)
    client.frame(captured.routerAdvertisement)
    client.frame(answer6(client.state, reply, [association6({})]))
    expect(client.step.changes).toMatchObject([{ kind: "renewed", before: { address: "2001:db8::5b/64" } }])
  })

  test("confirms it after a restart; a link that it does not belong to takes it away", () => {
    const client = bound()
    client.start()
    expect(sent(client).at(-1)).toBe(`04${xid}${clientId}${elapsed}${held}`)
    const before = client.state.lease
    client.frame(answer6(client.state, reply, [[13, fromHex("0000")]]))
    expect([client.state.phase, client.state.lease]).toEqual(["bound", before])
    client.start()
    client.frame(answer6(client.state, reply, [[13, fromHex("0004")]]))
    expect(client.step.changes).toMatchObject([{ kind: "lost" }])
    const silent = bound()
    silent.start()
    const waits: number[] = []
    for (let now = silent.now; silent.state.phase === "rebooting"; now = silent.now) {
      silent.wait()
      waits.push(silent.now - now)
    }
    expect(waits).toEqual([1050, 2100, 4000, 4000])
    expect(silent.state).toMatchObject({ phase: "bound", lease: { address: "2001:db8::5b/64" } })
  })

  test("releases it", () => {
    const client = bound()
    client.on({ kind: "release" })
    expect(sent(client)).toEqual([`08${xid}${clientId}${server}${elapsed}${held}`])
    expect(client.state.phase).toBe("ended")
    const later = bound()
    later.now += 5000
    later.on({ kind: "release" })
    expect(sent(later)).toEqual([`08${xid}${clientId}${server}${elapsed}${held}`]) // RELEASE starts a new transaction now
  })
})

test("a DUID is a UUID, always the same for a text", () => {
  // printf %s box/net/eth0 | sha256sum
  const digest = new Bun.CryptoHasher("sha256").update("box/net/eth0").digest("hex")
  expect(makeDuid("box/net/eth0")).toBe(`0004${digest.slice(0, 12)}8${digest.slice(13, 16)}9${digest.slice(17, 32)}`)
  expect(makeDuid("box/net/eth1")).not.toBe(makeDuid("box/net/eth0"))
})
