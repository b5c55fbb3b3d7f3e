import { describe, expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { JsonObject } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseBandwidthConfig } from "./config.ts"
import { ifbOwner } from "./ifb.ts"
import { planFilters } from "./shaper.ts"

const network = { cniVersion: "1.1.0", name: "lab", type: "bandwidth" }
const read = (raw: JsonObject, verb: Verb = "ADD") => parseBandwidthConfig(network, { args: "", verb, raw })
const refused = (raw: JsonObject) => refusalOf(() => void read(raw)).message
const nothing = { ingress: undefined, egress: undefined, subnets: undefined, shapeIn: undefined }

describe("limits", () => {
  test("in bits become bytes, in any case of their keys, at the top and from the runtime", () => {
    const keys = { ingressRate: 8000, INGRESSBURST: "80", egressRate: "16k", egressBurst: 800 }
    const expected = { ...nothing, ingress: { rate: 1000, burst: 10 }, egress: { rate: 2000, burst: 100 } }
    expect(read(keys)).toMatchObject(expected)
    expect(read({ RuntimeConfig: { bandWidth: keys } })).toMatchObject(expected)
  })

  test("of the runtime count where those at the top are zero, and not where one is not", () => {
    const runtimeConfig = { bandwidth: { egressRate: 8000, egressBurst: 80 } }
    const zeros = { ingressRate: 0, ingressBurst: 0, egressRate: 0, egressBurst: 0 }
    expect(read({ ...zeros, runtimeConfig }).egress).toEqual({ rate: 1000, burst: 10 })
    const { ingress, egress } = read({ ingressRate: 80, ingressBurst: 8, runtimeConfig })
    expect({ ingress, egress }).toEqual({ ingress: { rate: 10, burst: 1 }, egress: undefined })
  })

  test("are none without a rate and a burst", () => {
    expect(read({})).toMatchObject(nothing)
    expect(read({ ingressRate: 0, runtimeConfig: { bandwidth: null } })).toEqual(read({}))
  })

  test("without a burst get one, and so does what runtimes write for none", () => {
    const burst = { rate: 1_000_000, burst: 32 * 1024 }
    expect(read({ ingressRate: "8M" }).ingress).toEqual(burst)
    for (const egressBurst of [4294967295, 2147483647]) {
      expect(read({ runtimeConfig: { bandwidth: { egressRate: 8e6, egressBurst } } }).egress).toEqual(burst)
      expect(read({ egressRate: 8e6, egressBurst }).egress?.burst).toBe(Math.trunc(egressBurst / 8))
    }
  })

  // The bounds are upstream's.
  test("have bursts of up to 4 GiB minus 2 bytes", () => {
    expect(read({ ingressRate: 8, ingressBurst: (2 ** 32 - 2) * 8 }).ingress?.burst).toBe(2 ** 32 - 2)
    expect(refused({ ingressRate: 8, ingressBurst: 2 ** 35 })).toContain("burst cannot be more than 4GB")
    expect(refused({ ingressRate: 8, ingressBurst: "4GiB" })).toContain("burst cannot be more than 4GB")
  })

  test("a burst without a rate is refused by both names", () => {
    const error = refusalOf(() => void read({ egressRate: 0, egressBurst: 8 }))
    expect([error.message, error.details]).toEqual([
      "if burst is set, rate must also be set",
      '"egressBurst" is set, but "egressRate" is missing or 0',
    ])
  })

  test.each([
    [{ ingressBurst: 8 }, "if burst is set, rate must also be set"],
    [{ egressRate: 7 }, 'Cannot use "egressRate": expected 8 bits per second or more, found 7'],
    [{ egressRate: 8, egressBurst: 7 }, 'Cannot use "egressBurst": expected 8 bits or more, found 7'],
    [{ egressRate: -8 }, 'Cannot use "egressRate": expected bits per second'],
    [{ egressRate: 1.5 }, 'Cannot use "egressRate": expected bits per second'],
    [{ egressRate: "15Mbps" }, 'found "15Mbps"'],
    [{ ingressRate: JSON.rawJSON("18446744073709551616") }, "found 18446744073709551616"],
    [{ runtimeConfig: { bandwidth: { ingressRate: "x" } } }, 'Cannot use "runtimeConfig.bandwidth.ingressRate"'],
    // A valid limit of the runtime does not replace an invalid one at the top.
    [{ ingressBurst: 8, runtimeConfig: { bandwidth: { ingressRate: 8 } } }, "rate must also be set"],
    [{ shapeIn: "pod" }, 'Cannot use "shapeIn": expected "host" or "container", found "pod"'],
    [
      { shapedSubnets: ["10.0.0.0/8", "hello"] },
      'Cannot use "shapedSubnets[1]": expected a subnet such as 10.1.0.0/16',
    ],
    [{ shapedSubnets: ["10.0.0.1"] }, 'found "10.0.0.1"'],
    [
      { shapedSubnets: ["::/0"], unshapedSubnets: ["::/0"] },
      'Cannot use "shapedSubnets" and "unshapedSubnets" together',
    ],
  ])("are refused: %p", (raw, says) => expect(refused(raw as JsonObject)).toContain(says))

  test("do not matter to DEL and GC", () => {
    for (const verb of ["DEL", "GC"] as const) {
      expect(read({ ingressRate: "x", egressBurst: 7, shapeIn: "host" }, verb)).toEqual({
        ...read({}),
        shapeIn: "host",
      })
    }
  })
})

describe("subnets", () => {
  const subnet = { ip: Uint8Array.of(10, 1, 0, 0), prefix: 16 }

  test("lose their host bits, and come from where the limits come from, or from the top", () => {
    const shaped = { areShaped: true, list: [subnet] }
    expect(read({ shapedSubnets: ["10.1.2.3/16"] }).subnets).toEqual(shaped)
    const runtimeConfig = { bandwidth: { egressRate: 8, shapedSubnets: ["10.1.0.0/16"] } }
    expect(read({ runtimeConfig }).subnets).toEqual(shaped)
    expect(read({ runtimeConfig, unshapedSubnets: ["10.9.0.0/16"] }).subnets).toEqual(shaped)
    expect(read({ unshapedSubnets: ["10.1.0.0/16"], runtimeConfig: { bandwidth: { egressRate: 8 } } }).subnets).toEqual(
      {
        areShaped: false,
        list: [subnet],
      },
    )
    expect(read({ unshapedSubnets: [] }).subnets).toBeUndefined()
  })

  // The keys equal those of `u32 match ip src 10.1.0.0/16` and `match ip6 dst fd00:1::/56`, see
  // pkg/netlink/filters.test.ts.
  test("become filters for the peer's address, to the class that is not the default one", () => {
    const limit = { rate: 1, burst: 1 }
    const v6 = { ip: Uint8Array.fromHex("fd000001000000000000000000000000"), prefix: 56 }
    const plan = (areShaped: boolean, peer: "src" | "dst") =>
      planFilters({ limit, subnets: { areShaped, list: [subnet, v6] }, peer })
    expect(plan(true, "src")[0]).toEqual({
      kind: "u32",
      parent: 0x10000,
      protocol: 0x800,
      priority: 16,
      options: { classId: 0x10030, selector: [{ mask: 0xffff0000, value: 0x0a010000, offset: 12 }] },
    })
    expect(plan(false, "dst")[1]).toEqual({
      kind: "u32",
      parent: 0x10000,
      protocol: 0x86dd,
      priority: 15,
      options: {
        classId: 0x10001,
        selector: [
          { mask: 0xffffffff, value: 0xfd000001, offset: 24 },
          { mask: 0xffffff00, value: 0, offset: 28 },
        ],
      },
    })
    const all = planFilters({
      limit,
      subnets: { areShaped: true, list: [{ ip: new Uint8Array(4), prefix: 0 }] },
      peer: "dst",
    })
    expect(all[0]?.options.selector).toEqual([{ mask: 0, value: 0, offset: 16 }])
  })
})

// From upstream's plugin and its tests: "cni-plugin-bandwidth-test" and "dummy", "tnet" and "cid1".
test("the device has upstream's name, or one of the interface's own", () => {
  const names = (network: string, containerId: string, ifName = "eth0") => ifbOwner({ network, containerId, ifName })
  expect(names("cni-plugin-bandwidth-test", "dummy").upstreamName).toBe("bwpa8eda89404b7")
  expect(names("tnet", "cid1").upstreamName).toBe("bwpf67e00a966f2")
  expect(names("tnet", "cid1", "net1").upstreamName).toBe("bwpf67e00a966f2")
  const own = [names("tnet", "cid1"), names("tnet", "cid1", "net1"), names("tnetc", "id1")].map((each) => each.ownName)
  expect(new Set(own).size).toBe(3)
  for (const name of own) expect(name).toMatch(/^bwp[0-9a-f]{12}$/)
})
