/**
 * The vrf plugin, called in this process, on a kernel that has no VRFs and is shown as one that has (`vrf-kernel.fixture.ts`), judged with `ip`.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, spyOn, test } from "bun:test"
import { vrf } from "../../meta/vrf/main.ts"
import { RouteSocket } from "../../pkg/netlink/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall, refuseAnswer } from "./in-process.ts"
import type { Refusals } from "./refusing-kernel.fixture.ts"
import { openVrfSocket, type Tables } from "./vrf-kernel.fixture.ts"

let host: HostNamespace
let pod: ContainerNamespace
const tables: Tables = new Map()
const refusals: Refusals = new Map()
const open = spyOn(RouteSocket, "open").mockImplementation(() => openVrfSocket(tables, refusals))
const subscribe = spyOn(RouteSocket, "subscribe").mockImplementation((groups) =>
  openVrfSocket(tables, refusals, groups),
)
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
  await inside("sysctl -qw net.ipv6.conf.default.disable_ipv6=1")
})
afterAll(async () => {
  for (const spy of [open, subscribe]) spy.mockRestore()
  await host[Symbol.asyncDispose]()
})

const inside = async (script: string) => (await pod.exec("sh", ["-c", script])).stdout

/** Interfaces with an address, a route on the link, and one of table 500; number 1 is "eth1" with 10.1.0.2. */
beforeEach(async () => {
  tables.clear()
  const lines = [1, 2].flatMap((n) => [
    `link add eth${n} type veth peer name far${n}`,
    `link set eth${n} up`,
    `link set far${n} up`,
    `address add 10.${n}.0.2/16 dev eth${n}`,
    `route add 10.9${n}.0.0/16 dev eth${n} metric 7`,
    `route add 10.8${n}.0.0/16 dev eth${n} table 500`,
  ])
  await pod.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
})
afterEach(async () => {
  const links = await pod.json<{ ifname: string }[]>("ip", ["-j", "link"])
  const lines = links.flatMap(({ ifname }) => (/^(far|red|blue|lan)/.test(ifname) ? `link del ${ifname}\n` : []))
  await pod.exec("ip", ["-batch", "-"], { input: lines.join("") })
})

function configOf(number: number, keys: object = {}) {
  const interfaces = [{ name: `eth${number}`, sandbox: pod.path }]
  const ips = [{ address: `10.${number}.0.2/16`, interface: 0 }]
  const prevResult = { cniVersion: "1.1.0", interfaces, ips, routes: [{ dst: `10.7${number}.0.0/16` }] }
  return { cniVersion: "1.1.0", name: "lab", type: "vrf", vrfname: "red", prevResult, ...keys }
}

function call(verb: ProcessCall["verb"], number: number, keys: object = {}, more: Partial<ProcessCall> = {}): Answer {
  return callPlugin(host, vrf, { verb, config: configOf(number, keys), pod, ifName: `eth${number}`, ...more })
}

function done(verb: ProcessCall["verb"], number: number, keys: object = {}, more: Partial<ProcessCall> = {}) {
  const answer = call(verb, number, keys, more)
  expect(answer).toMatchObject({ exitCode: 0, log: [] })
  return answer.json
}

/** The VRFs, "red up alias", the interfaces in them, "eth1 red", and the routes that no address has made. */
async function shown(): Promise<string[]> {
  type Shown = { ifname: string; flags: string[]; master?: string; ifalias?: string; linkinfo?: { info_kind: string } }
  const links = await pod.json<Shown[]>("ip", ["-d", "-j", "link"])
  const lines = links.flatMap(({ ifname, flags, master, ifalias, linkinfo }) => [
    ...(linkinfo?.info_kind === "bridge" ? [`${ifname} ${flags.includes("UP") ? "up" : "down"} ${ifalias}`] : []),
    ...(master ? [`${ifname} in ${master}`] : []),
  ])
  const routes = await inside("ip -4 route show table all")
  const own = routes.split("\n").filter((line) => line !== "" && !/^(local|broadcast)|proto kernel/.test(line))
  return [...lines, ...own.map((line) => line.replace(/ scope link| linkdown/g, "").trim())].sort()
}

const apart = (n: number) => [`10.8${n}.0.0/16 dev eth${n} table 500`, `10.9${n}.0.0/16 dev eth${n} metric 7`]
const inTable = (n: number, table: number) => [
  `10.7${n}.0.0/16 dev eth${n} table ${table}`,
  `10.8${n}.0.0/16 dev eth${n} table 500`,
  `10.9${n}.0.0/16 dev eth${n} table ${table} metric 7`,
]
const before = [...apart(1), ...apart(2)]

test("an interface is in its VRF, with its routes and those of the result in the VRF's table; a second ADD changes nothing", async () => {
  expect(done("ADD", 1)).toMatchObject({ interfaces: configOf(1).prevResult.interfaces })
  const added = ["red up lab/c1/eth1", "eth1 in red", ...inTable(1, 1), ...apart(2)].sort()
  expect(await shown()).toEqual(added)
  expect(tables.get("red")).toBe(1)
  done("CHECK", 1)
  await inside("ip route add 10.61.0.0/16 dev eth1") // by hand, where it is no more than any other
  done("ADD", 1)
  expect(await shown()).toEqual([...added, "10.61.0.0/16 dev eth1"].sort())
  expect((await host.exec("ip", ["netns", "list-id"])).stdout).toContain(pod.name)
})

test.each([
  ["by its configuration", {}],
  ["by the interface's master", { prevResult: undefined, vrfname: 7, table: "many" }],
])(
  "DEL, %s, takes it out, with its routes back in table main, and the VRF goes with its last interface",
  async (_, keys) => {
    done("ADD", 1)
    done("ADD", 2)
    done("DEL", 1, keys)
    const back = (n: number) => ("vrfname" in keys ? [] : [`10.7${n}.0.0/16 dev eth${n}`])
    const moved = (n: number) => (back(n).length > 0 ? back(n) : [`10.7${n}.0.0/16 dev eth${n}`])
    expect(await shown()).toEqual(
      ["red up lab/c1/eth1", "eth2 in red", ...apart(1), ...moved(1), ...inTable(2, 1)].sort(),
    )
    done("CHECK", 2)
    done("DEL", 2, keys)
    expect(await shown()).toEqual([...before, ...moved(1), ...moved(2)].sort())
    done("DEL", 2, keys)
  },
)

test("an ADD whose answer nobody takes leaves everything as it was, with the VRF and without", async () => {
  const result = configOf(1, {}).prevResult
  const keys = { prevResult: { ...result, routes: [] } }
  expect(call("ADD", 1, keys, { write: refuseAnswer })).toMatchObject({ exitCode: 1, log: [] })
  expect(await shown()).toEqual(before.sort())
  done("ADD", 2)
  await inside("ip link set red down")
  const there = await shown()
  expect(call("ADD", 1, keys, { write: refuseAnswer })).toMatchObject({ exitCode: 1, log: [] })
  expect(await shown()).toEqual(there)
})

test("the table is the one that is asked for, or free: no VRF, no rule and no route has it", async () => {
  await inside("ip rule add from 192.0.2.1 lookup 1; ip route add 192.0.2.0/24 dev eth2 table 3")
  done("ADD", 1)
  done("ADD", 2, { vrfname: "blue" })
  expect([...tables]).toEqual([
    ["red", 2],
    ["blue", 4],
  ])
  done("DEL", 1)
  done("ADD", 1, { table: 4 })
  expect(tables.get("red")).toBe(4)
  done("CHECK", 1, { table: 4 })
  await inside("ip rule del from 192.0.2.1 lookup 1")
  expect(call("ADD", 2, { vrfname: "red", table: 9 }).json.msg).toContain("has already a master set: blue")
  await inside("ip link set eth2 nomaster")
  expect(call("ADD", 2, { vrfname: "red", table: 9 }).json.msg).toContain("different routing table 4")
})

describe("ADD changes nothing when", () => {
  const refused = 'Cannot put "eth1" into VRF "red": '
  test.each<[string, string, object, object]>([
    [
      "there is no prevResult",
      "true",
      { prevResult: undefined },
      {
        code: 7,
        msg: 'Required prevResult missing: there is no "eth1" to put into a VRF',
        details: "put vrf after the plugin that makes the interface",
      },
    ],
    [
      "the name is another link's",
      "ip link add red type bridge",
      {},
      { msg: 'Cannot use "red" as a VRF: Netlink red is not a VRF' },
    ],
    [
      "the interface has another master",
      "ip link add lan type bridge; ip link set eth1 master lan",
      {},
      { code: 999, msg: `${refused}interface eth1 has already a master set: lan` },
    ],
    [
      "sbr routes by its address",
      "ip rule add from 10.1.0.2 lookup 100 proto 67",
      {},
      {
        code: 999,
        msg: `${refused}sbr routes by its addresses`,
        details: "leave out sbr: the VRF's table does its work",
      },
    ],
  ])("%s", async (_, script, keys, error) => {
    await inside(script)
    const there = await shown()
    expect(call("ADD", 1, keys).json).toMatchObject(error)
    expect(await shown()).toEqual(there)
    done("DEL", 1, { ...keys, prevResult: undefined })
    expect(await shown()).toEqual(there)
    await inside("ip rule del from 10.1.0.2 lookup 100 2>/dev/null; true")
  })

  test("there is no such interface", async () => {
    await inside("ip link del far1")
    expect(call("ADD", 1).json).toMatchObject({
      code: 999,
      msg: `${refused}there is no such interface in "${pod.path}"`,
    })
    await inside("ip link add far1 type veth")
  })

  test("rules of others lead by its address, or of sbr by another's, but these are in nobody's way", async () => {
    await inside("ip rule add from 10.1.0.2 lookup 100; ip rule add from 10.2.0.2 lookup 100 proto 67")
    done("ADD", 1)
    await inside("ip rule del from 10.1.0.2 lookup 100; ip rule del from 10.2.0.2 lookup 100")
  })
})

test("CHECK names what is not as ADD has left it", async () => {
  const check = (keys: object = {}) => call("CHECK", 1, keys).json?.msg
  expect(check()).toBe('Check of VRFs failed: expected "red", found none of that name')
  done("ADD", 1)
  expect(check({ table: 9 })).toBe('Check of VRF "red" failed: expected table 9, found table 1')
  await inside("ip route del 10.71.0.0/16 table 1")
  expect(check()).toStartWith("Check of routes failed: expected 10.71.0.0/16")
  await inside("ip route add 10.71.0.0/16 dev eth1")
  expect(check()).toStartWith("Check of routes failed: expected 10.71.0.0/16")
  await inside("ip route del 10.71.0.0/16; ip route add 10.71.0.0/16 dev eth1 table 1; ip link set red down")
  expect(check()).toBe('Check of VRF "red" failed: expected up, found down')
  await inside("ip link set red up; ip link set eth1 nomaster")
  expect(check()).toBe('Check of master of "eth1" failed: expected "red", found none')
  await inside("ip link add lan type bridge; ip link set eth1 master lan")
  expect(check()).toBe('Check of master of "eth1" failed: expected "red", found lan')
  await inside("ip link set eth1 master red; ip route flush table 1; ip link set red down; ip link set lan down")
  done("ADD", 1)
  done("CHECK", 1)
})

describe("DEL", () => {
  test("without the interface takes the VRF that its ADD has made, found by the owner's name, if it is empty", async () => {
    for (const keys of [{}, { vrfname: 7 }]) {
      done("ADD", 1)
      done("ADD", 2)
      await inside("ip link del far1")
      done("DEL", 1, keys)
      expect(await shown()).toContain("red up lab/c1/eth1")
      await inside("ip link set eth2 nomaster")
      done("DEL", 1, keys)
      expect((await shown()).filter((line) => line.startsWith("red"))).toEqual([])
      await inside(
        "ip link add eth1 type veth peer name far1; ip address add 10.1.0.2/16 dev eth1; ip link set eth1 up; ip link set far1 up",
      )
    }
  })

  test("puts back what an earlier one that was killed did not come to", async () => {
    await inside("ip route del 10.91.0.0/16 metric 7")
    done("DEL", 1)
    expect(await shown()).toContain("10.71.0.0/16 dev eth1")
    await inside("ip route del 10.71.0.0/16; ip link add lan type bridge; ip link set eth1 master lan")
    done("DEL", 1)
    expect(await shown()).not.toContain("10.71.0.0/16 dev eth1")
  })

  test("says what routes the interface has lost, and succeeds", async () => {
    done("ADD", 1)
    await inside("ip link set eth1 down")
    const { exitCode, log } = call("DEL", 1)
    expect(exitCode).toBe(0)
    expect(log.join("\n")).toContain('vrf: "eth1" has lost routes: ')
    expect(await shown()).not.toContain("eth1 in red")
  })

  test("without a namespace succeeds", () => {
    done("DEL", 1, {}, { pod: undefined })
  })
})

describe("what the kernel refuses", () => {
  const [DELLINK, GETROUTE, EPERM] = [17, 26, 1]

  test("is told by DEL, after all else was done", async () => {
    done("ADD", 1)
    refusals.set(DELLINK, EPERM)
    const { exitCode, json } = call("DEL", 1)
    refusals.clear()
    expect(exitCode).toBe(1)
    expect(`${json.msg} ${json.details}`).toContain('delete VRF "red"')
    expect(`${json.msg} ${json.details}`).toContain("EPERM")
    expect(await shown()).not.toContain("eth1 in red")
    done("DEL", 1)
  })

  test("is no answer to where routes are", () => {
    done("ADD", 1)
    refusals.set(GETROUTE, EPERM)
    const answer = call("ADD", 1)
    refusals.clear()
    expect(answer).toMatchObject({ exitCode: 1, json: { code: 999 } })
    expect(`${answer.json.msg} ${answer.json.details}`).toContain("EPERM")
  })
})

test("GC takes the empty VRFs of what is not valid in its network, in containers that live", async () => {
  const collect = (...names: string[]) => {
    const valid = names.map((ifname) => ({ containerID: "c1", ifname }))
    const config = { ...configOf(1), prevResult: undefined, "cni.dev/valid-attachments": valid }
    expect(callPlugin(host, vrf, { verb: "GC", config })).toMatchObject({ exitCode: 0, log: [] })
  }
  done("ADD", 1)
  await inside("ip link add lan type bridge; ip link set lan alias lab/c9/eth1")
  const there = await shown()
  collect()
  expect(await shown()).toEqual(there)
  await inside("ip link set eth1 nomaster")
  collect("eth1")
  expect(await shown()).toContain("red up lab/c1/eth1")
  collect("eth2")
  expect((await shown()).filter((line) => /^(red|lan)/.test(line))).toEqual(["lan down lab/c9/eth1"])
})

test("STATUS is well where VRFs can be made", () => {
  expect(callPlugin(host, vrf, { verb: "STATUS", config: { ...configOf(1), prevResult: undefined } }).exitCode).toBe(0)
})
