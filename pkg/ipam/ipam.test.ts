import { describe, expect, test } from "bun:test"
import type { Delegate } from "../invoke/mod.ts"
import { CniError, type JsonObject, type Result } from "../types/mod.ts"
import { expectedIps, ipam } from "./mod.ts"

const network = { cniVersion: "1.1.0", name: "lab", type: "bridge", ipam: { type: "pool" } }
const withoutIpam = { cniVersion: "1.1.0", name: "lab", type: "bridge" }
const oneAddress: Result = { interfaces: [], ips: [{ address: "192.0.2.7/24" }], routes: [], dns: {} }

/** Returns a caller whose delegate records its calls and answers ADD with `result`. The verbs in `failing` throw. */
function caller(options: { result?: Result; failing?: string[]; network?: typeof withoutIpam } = {}) {
  const calls: string[] = []
  const log: string[] = []
  const verb = (name: string) => (type: string) => {
    calls.push(`${name} ${type}`)
    if (options.failing?.includes(name)) throw new CniError(11, `${name} failed`)
  }
  const add = (type: string) => {
    verb("ADD")(type)
    return options.result ?? oneAddress
  }
  const delegate: Delegate = { add, check: verb("CHECK"), del: verb("DEL"), status: verb("STATUS"), gc: verb("GC") }
  return {
    calls,
    lines: log,
    network: options.network ?? network,
    delegate,
    log: (line: string) => void log.push(line),
  }
}

describe("an interface plugin's IPAM", () => {
  test("answers what the IPAM plugin gave", () => {
    const call = caller()
    expect(ipam.add(call)).toEqual(oneAddress)
    expect(call.calls).toEqual(["ADD pool"])
  })

  test("takes an answer without an address for a failure, and releases what was reserved", () => {
    const call = caller({ result: { ...oneAddress, ips: [] } })
    expect(() => ipam.add(call)).toThrow("IPAM plugin returned missing IP config")
    expect(call.calls).toEqual(["ADD pool", "DEL pool"])
  })

  test("tells that error even when the release fails too, which is logged", () => {
    const call = caller({ result: { ...oneAddress, ips: [] }, failing: ["DEL"] })
    expect(() => ipam.add(call)).toThrow("IPAM plugin returned missing IP config")
    expect(call.lines).toEqual(['Cannot release the addresses of IPAM plugin "pool": DEL failed'])
  })

  test("cannot ADD without an IPAM plugin", () => {
    expect(() => ipam.add(caller({ network: withoutIpam }))).toThrow('Cannot get addresses for network "lab"')
  })

  test.each([
    ["#154", "CHECK", ipam.check],
    ["#154", "DEL", ipam.del],
    ["#155", "GC", ipam.gc],
    ["#156", "STATUS", ipam.status],
  ])("%s %s is handed on, and so is its error", (_number, name, forward) => {
    const call = caller({ failing: [name] })
    expect(() => forward(call)).toThrow(`${name} failed`)
    expect(call.calls).toEqual([`${name} pool`])
  })

  test.each([ipam.check, ipam.del, ipam.gc, ipam.status])(
    "nothing is asked when there is no IPAM plugin",
    (forward) => {
      const call = caller({ network: withoutIpam })
      forward(call)
      expect(call.calls).toBeEmpty()
    },
  )
})

const of = (ipam: JsonObject) => expectedIps({ ipam })

test("host-local's ranges have their first address for gateway, unless they say another", () => {
  const ranges = [
    [{ subnet: "10.22.0.0/16" }, { subnet: "10.23.0.0/16", gateway: "10.23.9.9" }],
    [{ subnet: "fd00::/64" }],
  ]
  expect(of({ type: "host-local", ranges, subnet: "10.1.0.0/24" })).toEqual([
    [{ address: "10.1.0.0/24", gateway: "10.1.0.1" }],
    [
      { address: "10.22.0.0/16", gateway: "10.22.0.1" },
      { address: "10.23.0.0/16", gateway: "10.23.9.9" },
    ],
    [{ address: "fd00::/64", gateway: "fd00::1" }],
  ])
})

test("static's addresses are all given, and have a gateway only when they say so", () => {
  const addresses = [{ address: "10.1.0.5/24" }, { address: "fd00::5/64", gateway: "fd00::1" }]
  expect(of({ type: "static", addresses })).toEqual([
    [{ address: "10.1.0.5/24" }],
    [{ address: "fd00::5/64", gateway: "fd00::1" }],
  ])
})

test("what another plugin gives, and what cannot be read, is not known", () => {
  expect(expectedIps({})).toEqual([])
  for (const ipam of [
    { type: "dhcp", subnet: "10.1.0.0/24" },
    { type: "host-local", ranges: [[{ subnet: "10.1.0.0" }], "none", null, [5]] },
    { type: "host-local", ranges: "all", subnet: 5 },
    { type: "static", addresses: { address: "10.1.0.5/24" } },
  ]) {
    expect(of(ipam)).toEqual([])
  }
})
