import { expect, test } from "bun:test"
import { within } from "../../integration/lab/mod.ts"
import type { Clock, LogEvent } from "../engine/surroundings.ts"
import type { Node, Registry } from "../records.ts"
import { RouteKeeper } from "./keeper.ts"
import type { RoutePlan, RouteRecords } from "./plan.ts"

/** A clock on which sleeping takes no time but one turn, so that the passes follow each other at once; long sleeps last. */
function quickClock(slept: number[]): Clock {
  return {
    bootMs: () => 0,
    bootId: "boot",
    async sleep(ms, signal) {
      slept.push(ms)
      if (ms < 10_000) return
      const { promise, resolve } = Promise.withResolvers<void>()
      signal.addEventListener("abort", () => resolve())
      await promise
    },
  }
}

/** Lets everything run that waits for nothing. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve()
}

function bench() {
  const slept: number[] = []
  const plans: RoutePlan[] = []
  const published: (readonly string[])[] = []
  const logged: LogEvent[] = []
  const state = {
    records: undefined as RouteRecords | undefined,
    addresses: ["192.0.2.1"],
    error: "",
    faults: [] as string[],
  }
  let looked = 0
  let changed = () => {}
  const keeper = new RouteKeeper({
    node: "a",
    clock: quickClock(slept),
    kernel: {
      addresses() {
        looked++
        return state.addresses
      },
      sync(plan) {
        if (state.error !== "") throw new Error(state.error)
        plans.push(plan)
        return { added: 0, removed: 0, faults: [...plan.faults, ...state.faults] }
      },
      async follow(notify, signal) {
        changed = notify
        const { promise, resolve } = Promise.withResolvers<void>()
        signal.addEventListener("abort", () => resolve())
        await promise
      },
    },
    records: () => state.records,
    publish: (addresses) => published.push(addresses),
    log: (event) => logged.push(event),
  })
  return { keeper, state, slept, plans, published, logged, change: () => changed(), looks: () => looked }
}

const empty: RouteRecords = { registry: { pools: {} }, nodes: [], blocks: [] }

test("addresses are published at once, and again when they have changed; the table waits for the records", async () => {
  const { keeper, state, plans, published, change } = bench()
  const end = new AbortController()
  const running = keeper.run(end.signal)
  await settle()
  expect([published, plans]).toEqual([[["192.0.2.1"]], []])
  state.records = empty
  keeper.wake()
  await settle()
  expect(plans).toHaveLength(1)
  state.addresses = ["192.0.2.7"]
  change()
  await settle()
  expect(published).toEqual([["192.0.2.1"], ["192.0.2.7"]])
  state.addresses = ["2001:db8::7"] // the default route of IPv4 is gone
  change()
  await settle()
  state.addresses = []
  change()
  await settle()
  expect(published.slice(2)).toEqual([["2001:db8::7", "192.0.2.7"]])
  end.abort()
  await within(running, "the keeper to end")
})

test("many changes are one pass, and no pass follows without a change", async () => {
  const { keeper, state, plans, slept, change } = bench()
  state.records = empty
  const end = new AbortController()
  const running = keeper.run(end.signal)
  await settle()
  const before = plans.length
  for (let count = 0; count < 100; count++) change()
  await settle()
  expect(plans).toHaveLength(before + 1)
  expect(slept.filter((ms) => ms >= 100).length).toBe(slept.length)
  end.abort()
  await within(running, "the keeper to end")
})

test("records that change no route do not lead to a look at the host's network", async () => {
  const { keeper, state, plans, change, looks } = bench()
  const owner = { name: "b", uid: "", machineId: "" }
  const prefixes = [{ prefix: "10.64.0.0/16", blockLength: 26, reserved: [] }]
  const pool = { name: "pods", network: "pods", prefixes, routes: [], quarantineS: 1, routing: "host-gw" } as const
  const block = { pool: "pods", prefix: "10.64.1.0/26", owner, nonce: "", epoch: 1, state: "owned" } as const
  const nodes: Node[] = [{ owner, addresses: ["192.0.2.2"] }]
  state.records = { registry: { pools: { pods: pool } }, nodes, blocks: [block] }
  const end = new AbortController()
  const running = keeper.run(end.signal)
  await settle()
  const before = { plans: plans.length, looks: looks() }
  state.records = { ...state.records, blocks: [{ ...block, nonce: "another", epoch: 2 }] }
  keeper.wake()
  await settle()
  expect({ plans: plans.length, looks: looks() }).toEqual(before)
  state.records = { ...state.records, blocks: [block, { ...block, prefix: "10.64.2.0/26" }] }
  keeper.wake()
  await settle()
  expect([plans.length, plans.at(-1)?.wanted.length]).toEqual([before.plans + 1, 2])
  change()
  await settle()
  expect([plans.length, looks()]).toEqual([before.plans + 2, before.looks + 1])
  end.abort()
  await within(running, "the keeper to end")
})

test("a failure and a fault are in the status and in the log once, and go with their cause", async () => {
  const { keeper, state, logged } = bench()
  state.records = empty
  state.error = "list routes: EPERM"
  const end = new AbortController()
  const running = keeper.run(end.signal)
  for (let count = 0; count < 3; count++) {
    keeper.wake()
    await settle()
  }
  const fault = "Cannot keep the routes to other nodes: list routes: EPERM"
  expect(keeper.status).toEqual({ wanted: 0, faults: [fault] })
  expect(logged).toEqual([{ level: "warning", message: fault }])
  state.error = ""
  state.faults = ["Cannot route"]
  keeper.wake()
  await settle()
  expect(keeper.status.faults).toEqual(["Cannot route"])
  state.faults = []
  keeper.wake()
  await settle()
  expect(keeper.status).toEqual({ wanted: 0, faults: [] })
  end.abort()
  await within(running, "the keeper to end")
})

test("the number of wanted routes is that of the plan", async () => {
  const { keeper, state } = bench()
  const owner = { name: "b", uid: "", machineId: "" }
  const nodes: Node[] = [{ owner, addresses: ["192.0.2.2"] }]
  const prefixes = [{ prefix: "10.64.0.0/16", blockLength: 26, reserved: [] }]
  const pool = { name: "pods", network: "pods", prefixes, routes: [], quarantineS: 1, routing: "host-gw" } as const
  const registry: Registry = { pools: { pods: pool } }
  const block = { pool: "pods", prefix: "10.64.1.0/26", owner, nonce: "", epoch: 1, state: "owned" } as const
  state.records = { registry, nodes, blocks: [block] }
  const end = new AbortController()
  const running = keeper.run(end.signal)
  await settle()
  expect(keeper.status.wanted).toBe(1)
  end.abort()
  await within(running, "the keeper to end")
})
