import { describe, expect, test } from "bun:test"
import { type Bus, DbusError } from "../../pkg/dbus/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { Firewalld } from "./firewalld.ts"

type Call = Parameters<Bus["call"]>[0]

/** Returns a fake firewalld that answers by `answer`, its calls, and how often its bus was closed. */
function answering(answer: () => ReturnType<Bus["call"]>, hasOwner: (name: string) => boolean = () => true) {
  const calls: Call[] = []
  const state = { closed: 0 }
  const bus = {
    hasOwner,
    call(call: Call) {
      calls.push(call)
      return answer()
    },
    [Symbol.dispose]: () => void state.closed++,
  }
  return { bus, firewalld: new Firewalld(bus), calls, state }
}

const refusing = (error: Error) =>
  answering(() => {
    throw error
  }).firewalld

// firewalld.dbus(5), "org.fedoraproject.FirewallD1.zone"
const zones = {
  destination: "org.fedoraproject.FirewallD1",
  path: "/org/fedoraproject/FirewallD1",
  interface: "org.fedoraproject.FirewallD1.zone",
}
const source = "10.1.0.2/32"

test("firewalld is asked for the sources of zones by its methods, and its bus is closed with it", () => {
  const { firewalld, calls, state } = answering(() => [["10.1.0.2/32", "fd00::/8"]])
  firewalld.addSource("trusted", source)
  firewalld.removeSource("trusted", source)
  expect(firewalld.listSources("trusted")).toEqual(["10.1.0.2/32", "fd00::/8"])
  expect(calls).toEqual([
    { ...zones, member: "addSource", args: ["trusted", source] },
    { ...zones, member: "removeSource", args: ["trusted", source] },
    { ...zones, member: "getSources", args: ["trusted"] },
  ])
  firewalld[Symbol.dispose]()
  expect(state.closed).toBe(1)
})

test("firewalld is found by its name on the bus; a bus without it is closed again", () => {
  const { bus, state } = answering(
    () => [["fd00::/8"]],
    (name) => name === "org.fedoraproject.FirewallD1",
  )
  expect(Firewalld.find(() => bus)?.listSources("trusted")).toEqual(["fd00::/8"])
  expect(state.closed).toBe(0)
  const without = answering(
    () => [],
    () => false,
  )
  expect(Firewalld.find(() => without.bus)).toBeUndefined()
  expect(without.state.closed).toBe(1)
  expect(Firewalld.find(() => undefined)).toBeUndefined()
})

test("a bus that does not let us in, or does not answer, is an error, and closed", () => {
  const refuse = (): never => {
    throw new DbusError("Cannot authenticate at the system bus")
  }
  const silent = answering(() => [], refuse)
  for (const find of [refuse, () => silent.bus])
    expect(refusalOf(() => Firewalld.find(find))).toMatchObject({
      code: 999,
      message: "Cannot query the system bus for firewalld",
      details: expect.stringContaining("Cannot authenticate at the system bus"),
    })
  expect(silent.state.closed).toBe(1)
})

test("an answer that is not a list has no sources", () => {
  expect(answering(() => []).firewalld.listSources("trusted")).toEqual([])
})

describe("what firewalld refuses", () => {
  const name = "org.fedoraproject.FirewallD1.Exception"
  const refusedWith = (text: string) => refusing(new DbusError(text, name))

  test.each(["ZONE_ALREADY_SET", "ALREADY_ENABLED"])("is success of adding when it is %s", (kind) => {
    refusedWith(`${kind}: '${source}' already bound to 'trusted'`).addSource("trusted", source)
    expect(() => refusedWith(`${kind}: '${source}'`).removeSource("trusted", source)).toThrow("Cannot remove")
  })

  test.each(["UNKNOWN_SOURCE", "NOT_ENABLED", "ZONE_CONFLICT", "INVALID_ZONE"])(
    "is success of removing when it is %s",
    (kind) => {
      refusedWith(`${kind}: '${source}'`).removeSource("trusted", source)
      expect(() => refusedWith(`${kind}: '${source}'`).addSource("trusted", source)).toThrow("Cannot add")
    },
  )

  test.each([
    ["addSource", `Cannot add the address ${source} to zone "home" of firewalld`],
    ["removeSource", `Cannot remove the address ${source} from zone "home" of firewalld`],
    ["listSources", 'Cannot list the sources of zone "home" of firewalld'],
  ] as const)("is told by %s with the first line of its words", (method, message) => {
    const failed = refusedWith("COMMAND_FAILED: 'python-nftables' failed\nJSON blob:\n{}")
    expect(refusalOf(() => failed[method]("home", source))).toMatchObject({
      code: 999,
      message,
      details: expect.stringMatching(/COMMAND_FAILED: 'python-nftables' failed$/),
    })
  })

  test("is told by its kind, which no other error has", () => {
    const other = refusing(new Error(`ALREADY_ENABLED: '${source}'`))
    expect(() => other.addSource("trusted", source)).toThrow("Cannot add the address")
  })
})
