/**
 * Tests the common code without root, with a plugin that creates no link. See also
 * integration/kernel/pkg/attachment.test.ts.
 */
import { expect, test } from "bun:test"
import { CniError, Code, type Owner } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import type { AttachmentConfig, InterfacePlugin } from "./plugin.ts"
import { type Chosen, callFor } from "./testing/calls.ts"
import { defineInterfacePlugin } from "./verbs.ts"

const config: AttachmentConfig = { mtu: undefined, ipam: undefined, dns: undefined }

/** Runs a verb of a plugin that has the functions `hooks`. Returns the recorded calls, and then the refusal, if any. */
function run(
  verb: "check" | "del" | "gc" | "status",
  hooks: Partial<InterfacePlugin<AttachmentConfig>>,
  { own = {}, ...chosen }: Chosen & { own?: Partial<AttachmentConfig> } = {},
): string[] {
  const said: string[] = []
  const call = callFor(said, chosen)
  const owners = (list: readonly Owner[]) => list.map((owner) => Object.values(owner).join("/"))
  const plugin = defineInterfacePlugin<AttachmentConfig>({
    name: "tester",
    kind: undefined,
    config: () => config,
    attach: () => [],
    detach: (_call, _config, owner) => void said.push(`detach ${owners([owner])}`),
    detachOrphans: (_call, valid) => void said.push(`detach but ${owners(valid)}`),
    ...hooks,
  })
  try {
    plugin[verb](call, { ...config, ...own }, [{ containerID: "c2", ifname: "eth1" }])
  } catch (error) {
    said.push(`${(error as CniError).code} ${(error as CniError).message}`)
  }
  return said
}

const withIpam = (type: string): Chosen => ({ network: { ipam: { type } } })

test.each([
  ["del", "static", ["detach lab/c1/eth0", "static DEL"]],
  ["del", "dhcp", ["dhcp DEL", "detach lab/c1/eth0"]],
  ["gc", "static", ["detach but lab/c2/eth1", "static GC"]],
  ["gc", "dhcp", ["dhcp GC", "detach but lab/c2/eth1"]],
] as const)("%s gives addresses of %s back while the interface can be used for that, once", (verb, type, events) => {
  expect(run(verb, {}, withIpam(type))).toEqual([...events])
})

const stuck = () => {
  throw new Error("it is stuck")
}

test.each([
  ["del", 'Cannot detach "eth0"', "static DEL is refused"],
  ["gc", "Cannot detach leftovers of other attachments", "static GC is refused"],
] as const)("%s goes on after a step that fails, and names every one at the end", (verb, detach, ipam) => {
  const refused = `static ${verb.toUpperCase()}`
  const events = run(verb, { detach: stuck, detachOrphans: stuck }, { ...withIpam("static"), refused })
  expect(events).toEqual([refused, `999 2 steps failed: ${detach}; ${ipam}`])
  expect(run(verb, {}, { ...withIpam("dhcp"), refused: `dhcp ${verb.toUpperCase()}` })).toHaveLength(3)
})

test("a plugin that has nothing of its own to take back needs no hooks", () => {
  const own = { name: "tester", kind: undefined, config: () => config, attach: () => [] }
  const plugin = defineInterfacePlugin<AttachmentConfig>(own)
  const said: string[] = []
  plugin.del(callFor(said), config)
  plugin.gc(callFor(said), config, [])
  plugin.status(callFor(said), config)
  expect(said).toEqual([])
})

const refusing = (message: string) => () => {
  throw new CniError(Code.InvalidNetworkConfig, message)
}

test("STATUS refuses with code 50 what every ADD would refuse, and asks the IPAM plugin last", () => {
  expect(run("status", {}, withIpam("static"))).toEqual(["static STATUS"])
  expect(run("status", { requireUsable: refusing("no master") }, withIpam("static"))).toEqual(["50 no master"])
  expect(run("status", {}, { ...withIpam("static"), refused: "static STATUS" }).at(-1)).toBe(
    "11 static STATUS is refused",
  )
})

const both = (...addresses: string[]): Chosen & { own: Partial<AttachmentConfig> } => ({
  network: { ipam: { type: "static", addresses: addresses.map((address) => ({ address })) } },
  own: { ipam: "static" },
})

test("STATUS tries the addresses that the configuration says: an MTU without room for them is refused, too", () => {
  const small = both("10.1.0.5/24", "fd00::5/64")
  expect(run("status", {}, { ...small, own: { ipam: "static", mtu: 1279 } })).toEqual([
    '50 Cannot use "mtu" 1279 with fd00::5/64',
  ])
  expect(run("status", {}, { ...small, own: { ipam: "static", mtu: 1280 } })).toEqual(["static STATUS"])
  expect(run("status", {}, { ...small, own: { mtu: 1279 } })).toEqual(["static STATUS"]) // no addresses of its own
})

test("STATUS tries what the plugin makes of each address by itself, with the interface as its place", () => {
  const seen: unknown[] = []
  const requireRoomFor: InterfacePlugin<AttachmentConfig>["requireRoomFor"] = (_host, result) => void seen.push(result)
  const dns = { domain: "own.example" }
  const chosen = both("10.1.0.5/24", "10.2.0.5/24")
  run("status", { requireRoomFor }, { ...chosen, own: { ipam: "static", dns } })
  expect(seen).toEqual(
    ["10.1.0.5/24", "10.2.0.5/24"].map((address) => ({
      interfaces: [],
      routes: [],
      dns,
      ips: [{ address, interface: 0 }],
    })),
  )
  seen.length = 0
  const complete: InterfacePlugin<AttachmentConfig>["complete"] = (result) => ({ ...result, dns: { search: ["a"] } })
  run("status", { requireRoomFor, complete }, both("10.1.0.5/24"))
  expect(seen).toEqual([{ interfaces: [], routes: [], dns: { search: ["a"] }, ips: [{ address: "10.1.0.5/24" }] }])
})

test("CHECK compares nothing of a device without an interface but its lease", () => {
  const prevResult = { interfaces: [{ name: "eth0", sandbox: "/gone" }], ips: [], routes: [], dns: {} }
  const network = { prevResult, ipam: { type: "static" } }
  const hooks = { isUserspace: () => true, check: refusing("looked at") }
  expect(run("check", hooks, { netns: "/gone", network })).toEqual(["static CHECK"])
  expect(run("check", { check: refusing("looked at") }, { netns: "/gone", network })).toEqual([
    "static CHECK",
    '4 Cannot use "/gone" as CNI_NETNS: it does not exist',
  ])
})

test("CHECK without a prevResult is refused before anything is asked", () => {
  expect(run("check", {}, withIpam("static"))).toEqual(['7 Cannot check "eth0": prevResult is missing'])
})

test("a plugin is what it says it is, with its own way to read its configuration", () => {
  const fields = { mode: { kind: "text" } } as never
  const own = { name: "tester", kind: undefined, fields, config: () => ({ ...config, mtu: 5 }), attach: () => [] }
  const plugin = defineInterfacePlugin<AttachmentConfig>(own)
  expect([plugin.name, plugin.fields, plugin.config]).toEqual([own.name, fields, own.config])
  expect(refusalOf(() => plugin.add(callFor([], { netns: "/gone" }), config)).code).toBe(4)
})
