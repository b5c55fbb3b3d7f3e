/**
 * The vrf plugin, called in this process, on a kernel that has no VRFs and is shown as one that has
 * (`vrf-kernel.fixture.ts`), judged with `ip`.
 */
import { expect, test } from "bun:test"
import { refuseAnswer } from "../in-process.ts"
import {
  apart,
  before,
  call,
  configOf,
  done,
  host,
  inside,
  inTable,
  pod,
  shown,
  tables,
  useVrfs,
} from "./vrfs.fixture.ts"

useVrfs()

test("an interface is in its VRF, with its routes in the VRF's table; a second ADD changes nothing", async () => {
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
    expect(await shown()).toEqual(["red up lab/c1/eth1", "eth2 in red", ...apart(1), ...inTable(2, 1)].sort())
    done("CHECK", 2)
    done("DEL", 2, keys)
    expect(await shown()).toEqual([...before].sort())
    done("DEL", 2, keys)
    expect(await shown()).toEqual([...before].sort())
  },
)

test("a route of the result that the interface never had is not made, by ADD in the VRF nor by DEL outside", async () => {
  await inside("ip route del 10.71.0.0/16")
  const there = await shown()
  const without = inTable(1, 1).filter((line) => !line.startsWith("10.71."))
  for (const _ of ["once", "twice"]) {
    done("ADD", 1)
    expect(await shown()).toEqual(["red up lab/c1/eth1", "eth1 in red", ...without, ...apart(2)].sort())
  }
  for (const _ of ["once", "twice"]) {
    done("DEL", 1)
    expect(await shown()).toEqual(there)
  }
})

test("an ADD whose answer is not read leaves everything as it was, with the VRF and without", async () => {
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
