import { describe, expect, test } from "bun:test"
import { answer4, config4, serverMac, TestClient } from "./testing/link.ts"
import type { ClientConfig } from "./types.ts"

const [discover, offer, request, ack, nak, released] = ["01", 2, "03", 5, 6, "07"] as const
const everyone = { toMac: "ff:ff:ff:ff:ff:ff", from: "0.0.0.0", to: "255.255.255.255", clientAddress: "0.0.0.0" }

/** Returns a client with 10.1.2.50, leased for ten seconds. */
function bound(config: Partial<ClientConfig> = {}): TestClient {
  const client = new TestClient({ ...config4, ...config })
  client.start()
  client.frame(answer4(client.state, offer, "10.1.2.50"))
  client.frame(answer4(client.state, ack, "10.1.2.50"))
  expect(client.state.phase).toBe("bound")
  return client
}

describe("a client with a lease", () => {
  test("asks its server to renew it: unicast, from its address, with neither address nor server among the options", () => {
    const client = bound()
    const renewAt = client.state.lease?.renewAt ?? 0
    expect(renewAt - client.now).toBe(4922) // a little earlier than half
    client.wait()
    expect(client.now).toBe(renewAt)
    expect(client.step.listen).toBe(true)
    expect(client.sent).toEqual([
      {
        toMac: serverMac,
        from: "10.1.2.50",
        to: "10.1.2.1",
        clientAddress: "10.1.2.50",
        xid: 0x80000000,
        secs: 0,
        flags: 0,
        options: { 53: request, 55: "0301", 57: "05dc", 61: config4.clientId },
      },
    ])
  })

  test("accepts unicast, with or without `broadcast`", () => {
    const client = bound({ broadcast: true })
    client.wait()
    expect(client.sent).toMatchObject([{ from: "10.1.2.50", flags: 0 }])
  })

  test("reports the changes of a renewal", () => {
    const client = bound()
    const before = client.state.lease
    client.wait()
    client.frame(answer4(client.state, ack, "10.1.2.51", { 26: "0578" }))
    expect(client.step.changes).toEqual([{ kind: "renewed", lease: client.state.lease, before } as never])
    expect(client.state).toMatchObject({
      phase: "bound",
      lease: { address: "10.1.2.51/24", mtu: 1400, since: client.now },
    })
  })

  test("keeps mask and server when the renewal does not name them", () => {
    const client = bound()
    client.wait()
    client.frame(answer4(client.state, ack, "10.1.2.50", { 1: "", 54: "" }))
    expect(client.step.changes).toMatchObject([
      { kind: "renewed", lease: { address: "10.1.2.50/24", server: "10.1.2.1", since: client.now } },
    ])
  })

  test("ignores answers before it has asked again", () => {
    const client = bound()
    const { state } = client
    for (const type of [offer, ack, nak]) {
      expect(client.frame(answer4(state, type, "10.1.2.51"))).toEqual({ state, send: [], changes: [], listen: false })
    }
  })

  test("asks every server from T2 on, and has lost the lease when it expires", () => {
    const client = bound()
    const { rebindAt = 0, expiresAt = 0, renewAt = 0 } = client.state.lease ?? {}
    const renewals: number[] = []
    while (client.state.phase !== "rebinding") {
      client.wait()
      if (client.state.phase === "renewing") renewals.push(client.now)
      if (client.state.phase === "renewing") expect(client.state.sent).toBe(renewals.length)
    }
    expect(renewals[0]).toBe(renewAt)
    expect(renewals.length).toBeGreaterThan(1)
    expect(client.now).toBe(rebindAt)
    expect(client.sent).toMatchObject([
      { toMac: everyone.toMac, to: everyone.to, from: "10.1.2.50", clientAddress: "10.1.2.50", flags: 0 },
    ])
    expect(Object.keys(client.sent[0]?.options ?? {})).toEqual(["53", "55", "57", "61"])
    let packets = 0
    while (client.state.lease) {
      packets += client.step.send.length
      client.wait()
    }
    expect(client.now).toBe(expiresAt)
    expect(packets).toBeLessThan(6)
    expect(client.step.changes).toMatchObject([{ kind: "lost", why: "the lease of 10.1.2.50 has expired" }])
    expect(client.sent[0]?.options[53]).toBe(discover)
    client.frame(answer4(client.state, offer, "10.1.2.52"))
    client.frame(answer4(client.state, ack, "10.1.2.52"))
    expect(client.step.changes).toMatchObject([{ kind: "bound", lease: { address: "10.1.2.52/24" } }])
  })

  test("may be renewed by another server from T2 on", () => {
    const client = bound()
    while (client.state.phase !== "rebinding") client.wait()
    client.frame(answer4(client.state, ack, "10.1.2.50", { 54: "0a010202" }))
    expect(client.step.changes).toMatchObject([{ kind: "renewed", lease: { server: "10.1.2.2" } }])
  })

  test("waits half of what is left before it asks again, a minute at least", () => {
    const client = bound()
    client.on({ kind: "start" })
    client.frame(answer4(client.state, ack, "10.1.2.50", { 51: "00015180" })) // a day
    client.wait()
    const waits: number[] = []
    while (client.state.phase === "renewing") {
      const { now } = client
      client.wait()
      waits.push(client.now - now)
    }
    expect(waits.length).toBeLessThan(12)
    expect(Math.max(...waits)).toBeGreaterThan(3_600_000)
    expect(waits.slice(0, -1).every((wait) => wait >= 60_000)).toBe(true)
  })

  test("loses the lease by a NAK, and asks for another at once, but not again and again", () => {
    const client = bound()
    client.wait()
    client.frame(answer4(client.state, nak, "0.0.0.0"))
    expect(client.step.changes).toMatchObject([
      { kind: "lost", lease: { address: "10.1.2.50/24" }, why: "NAK from 10.1.2.1" },
    ])
    expect(client.sent[0]?.options[53]).toBe(discover)
    client.frame(answer4(client.state, offer, "10.1.2.50"))
    client.frame(answer4(client.state, nak, "0.0.0.0"))
    expect(client.step).toMatchObject({ send: [], state: { phase: "waiting" } })
  })

  test("counts failures from zero again", () => {
    const client = new TestClient(config4)
    client.start()
    while (client.state.failures < 6) client.wait()
    client.wait()
    client.frame(answer4(client.state, offer, "10.1.2.50"))
    client.frame(answer4(client.state, ack, "10.1.2.50"))
    expect(client.state).toMatchObject({ phase: "bound", failures: 0 })
  })

  test("asks whether it still holds after a restart, and keeps it when nothing answers", () => {
    const client = bound()
    client.now += 1000
    client.start()
    expect(client.sent).toMatchObject([{ ...everyone, options: { 53: request, 50: "0a010232" } }])
    expect(client.sent[0]?.options).not.toHaveProperty("54")
    client.frame(answer4(client.state, ack, "10.1.2.50", { 51: "00000014" }))
    client.start()
    const lease = client.state.lease
    client.wait()
    expect(client.sent).toHaveLength(1)
    client.wait()
    expect(client.state.lease).toEqual(lease)
    expect(client.step.changes).toEqual([])
    expect(client.state.phase).toBe("renewing") // T1 has passed
  })

  test("has lost it when it ends before that question is answered", () => {
    const client = bound()
    client.start()
    while (client.state.lease) client.wait()
    expect(client.now).toBe(1_010_000)
  })

  test("goes on as before after a restart by a time that has not come", () => {
    const client = bound()
    client.now += 1000
    expect(client.on({ kind: "time" })).toMatchObject({ send: [], changes: [], listen: false, state: client.state })
    client.now += 60_000
    client.on({ kind: "time" })
    expect(client.step.changes).toMatchObject([{ kind: "lost" }])
  })

  test("asks for a new lease after a restart when the old one has ended", () => {
    const client = bound()
    client.now += 60_000
    client.start()
    expect(client.step.changes).toMatchObject([{ kind: "lost", why: "the lease of 10.1.2.50 has expired" }])
    expect(client.sent[0]?.options[53]).toBe(discover)
    expect(client.sent[0]?.options).not.toHaveProperty("50")
  })

  test("does nothing about a lease without an end", () => {
    const client = bound()
    client.wait()
    client.frame(answer4(client.state, ack, "10.1.2.50", { 51: "ffffffff" }))
    expect(client.state).not.toHaveProperty("deadline")
    expect(client.step).toMatchObject({ listen: false, state: { phase: "bound" } })
  })

  test("releases it: unicast from the address to the server", () => {
    const client = bound()
    client.on({ kind: "release" })
    expect(client.sent).toMatchObject([
      { toMac: serverMac, from: "10.1.2.50", to: "10.1.2.1", clientAddress: "10.1.2.50", secs: 0, flags: 0 },
    ])
    expect(client.sent[0]?.options).toEqual({ 53: released, 54: "0a010201", 61: config4.clientId })
    expect(client.step).toMatchObject({ changes: [], listen: false, state: { phase: "ended" } })
    for (const event of ["start", "time", "release"] as const) {
      expect(client.on({ kind: event })).toMatchObject({ send: [], changes: [], state: { phase: "ended" } })
    }
  })
})
