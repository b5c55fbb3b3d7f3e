import { describe, expect, test } from "bun:test"
import { IFF_UP, linkKinds } from "../../pkg/netlink/mod.ts"
import { type KernelLink, LinksKernel, linkOf } from "../../pkg/netlink/testing/links.ts"
import type { Verb } from "../../pkg/skel/mod.ts"
import { type JsonObject, parseNetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { parseVrfConfig } from "./config.ts"
import { deleteVrfIfEmpty, findVrf, requireVrf } from "./device.ts"

describe("the configuration", () => {
  const parse = (keys: JsonObject, verb: Verb = "ADD") => {
    const raw = { cniVersion: "1.1.0", name: "lab", type: "vrf", ...keys }
    return parseVrfConfig(parseNetworkConfig(raw), { args: "", verb, raw })
  }

  test("has a name, and a table unless one is to be chosen", () => {
    expect(parse({ vrfname: "red" })).toEqual({ vrfname: "red", table: undefined })
    expect(parse({ VrfName: "red", Table: 0 })).toEqual({ vrfname: "red", table: undefined })
    expect(parse({ vrfname: "red", table: 1 })).toEqual({ vrfname: "red", table: 1 })
    expect(parse({ vrfname: "red", table: 4294967295 }).table).toBe(4294967295)
  })

  test.each([
    [{}, 'Cannot use "vrfname": expected the name of a VRF, 1 to 15 bytes, found nothing'],
    [{ vrfname: "" }, "the name of a VRF, 1 to 15 bytes"],
    [{ vrfname: 5 }, "the name of a VRF, 1 to 15 bytes"],
    [{ vrfname: "sixteen-bytes-xx" }, "the name of a VRF, 1 to 15 bytes"],
    [{ vrfname: "red", table: -1 }, 'Cannot use "table"'],
    [{ vrfname: "red", table: 4294967296 }, 'Cannot use "table"'],
  ] as [JsonObject, string][])("%j is code 7, and for DEL and GC absent", (keys, message) => {
    expect(refusalOf(() => parse(keys))).toMatchObject({ code: 7, message: expect.stringContaining(message) })
    for (const verb of ["DEL", "GC"] as const) expect(() => parse(keys, verb)).not.toThrow()
  })
})

const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
const vrfOf = (table: number, more: Partial<KernelLink> = {}): KernelLink => {
  return { index: 5, name: "red", kind: "vrf", flags: IFF_UP, data: linkKinds.vrf.encode({ table }), ...more }
}

function require(present: readonly KernelLink[], table: number | undefined, refusal?: (type: number) => number) {
  const kernel = new LinksKernel(present, refusal && { refusal: ({ type }) => refusal(type) })
  const undo = new Undo(() => {})
  const found = requireVrf(kernel.socket, { name: "red", table, owner }, undo)
  return { kernel, undo, found }
}

describe("a VRF that does not exist", () => {
  test("is made up, with the table that is given and its owner's name, and goes when ADD is undone", () => {
    const { kernel, undo, found } = require([], 77)
    expect(found).toMatchObject({ table: 77, link: { name: "red" } })
    expect(kernel.links).toEqual([
      { verb: "add", index: 0, flags: IFF_UP, change: IFF_UP, name: "red", kind: "vrf", data: { table: 77 } },
      { verb: "set", index: 100, flags: 0, change: 0, alias: "lab/c1/eth0" },
    ])
    undo[Symbol.dispose]()
    expect(kernel.links.slice(2)).toMatchObject([{ verb: "delete", index: 100 }])
  })

  test("that cannot be deleted when ADD is undone is a line of the log", () => {
    const log: string[] = []
    const kernel = new LinksKernel([], { refusal: ({ type }) => (type === 17 ? 1 : 0) })
    const undo = new Undo((line) => log.push(line))
    requireVrf(kernel.socket, { name: "red", table: 77, owner }, undo)
    undo[Symbol.dispose]()
    expect(log).toEqual([expect.stringMatching(/^Cannot undo "create VRF "red"": .*EPERM/)])
  })

  test("gets a table that no other VRF has", () => {
    const others = [vrfOf(1, { name: "one", index: 5 }), vrfOf(3, { name: "three", index: 6 })]
    expect(require(others, undefined).found.table).toBe(2)
    expect(require([], undefined).found.table).toBe(1)
  })

  test("shares the table that is given with others", () => {
    expect(require([vrfOf(77, { name: "other" })], 77).found.table).toBe(77)
  })

  test("is refused with the kernel's reason, and where the kind is missing with that", () => {
    expect(refusalOf(() => require([], 77, (type) => (type === 16 ? 95 : 0)))).toMatchObject({
      code: 999,
      message: 'Cannot create VRF "red" with table 77',
      details: expect.stringContaining('the kernel has no vrf: load the module "vrf": '),
    })
    expect(refusalOf(() => require([], 77, (type) => (type === 16 ? 1 : 0))).details).toContain("EPERM")
  })
})

describe("a VRF that is there", () => {
  test("is used as it is, and brought up where it is down", () => {
    expect(require([vrfOf(7)], 7).kernel.links).toEqual([])
    expect(require([vrfOf(7)], undefined).found.table).toBe(7)
    const { kernel, undo } = require([vrfOf(7, { flags: 0 })], 7)
    expect(kernel.links).toEqual([{ verb: "set", index: 5, flags: IFF_UP, change: IFF_UP }])
    undo[Symbol.dispose]()
    expect(kernel.links.slice(1)).toEqual([{ verb: "set", index: 5, flags: 0, change: IFF_UP }])
  })

  test("with another table, or of another kind, is refused", () => {
    expect(refusalOf(() => require([vrfOf(7)], 8)).message).toBe(
      'Cannot use table 8 for VRF "red": VRF red already exist with different routing table 7',
    )
    expect(refusalOf(() => require([{ index: 5, name: "red", kind: "dummy" }], 7))).toMatchObject({
      message: 'Cannot use "red" as a VRF: Netlink red is not a VRF',
      details: 'its kind is "dummy": choose another "vrfname"',
    })
    expect(findVrf(new LinksKernel([]).socket, "red")).toBeUndefined()
  })

  test("is deleted when no interface is in it, and may be deleted already", () => {
    const deleted = (present: readonly KernelLink[], errno = 0) => {
      const kernel = new LinksKernel(present, { refusal: ({ type }) => (type === 17 ? errno : 0) })
      deleteVrfIfEmpty(kernel.socket, { link: linkOf(vrfOf(7)), table: 7 })
      return kernel.links.length
    }
    expect(deleted([vrfOf(7), { index: 9, name: "eth0", master: 6 }])).toBe(1)
    expect(deleted([vrfOf(7), { index: 9, name: "eth0", master: 5 }])).toBe(0)
    expect(deleted([], 19)).toBe(0)
    expect(() => deleted([], 1)).toThrow("EPERM")
  })
})
