import { describe, expect, test } from "bun:test"
import { encodeProbe } from "./frames.ts"
import { answer4, clientMac, config4, ip, serverMac, TestClient } from "./testing/link.ts"

const [discover, offer, request, declined, ack, nak, released] = ["01", 2, "03", "04", 5, 6, "07"] as const
const everyone = { toMac: "ff:ff:ff:ff:ff:ff", from: "0.0.0.0", to: "255.255.255.255", clientAddress: "0.0.0.0" }

describe("a client without a lease", () => {
  test("asks everyone, takes the first offer, and is bound by the ACK", () => {
    const client = new TestClient({ ...config4, provide: [[12, "686f737439"]], request: [121, 3, 1] })
    expect(client.start().listen).toBe(true)
    const asking = { 12: "686f737439", 55: "790301", 57: "05dc", 61: config4.clientId }
    expect(client.sent).toEqual([
      { ...everyone, xid: 0x80000000, secs: 0, flags: 0, options: { 53: discover, ...asking } },
    ])
    client.frame(answer4(client.state, offer, "10.1.2.50"))
    expect(client.sent).toEqual([
      {
        ...everyone,
        xid: 0x80000000,
        secs: 0,
        flags: 0,
        options: { 53: request, ...asking, 50: "0a010232", 54: "0a010201" },
      },
    ])
    const { changes, listen } = client.frame(answer4(client.state, ack, "10.1.2.50"))
    expect(changes).toMatchObject([{ kind: "bound", lease: { address: "10.1.2.50/24", serverMac } }])
    expect(listen).toBe(false)
    expect(client.state).toMatchObject({ phase: "bound", seen: "ACK of 10.1.2.50 from 10.1.2.1", failures: 0 })
  })

  test("asks again after 4, 8, 16 and 32 seconds, and from the start after a pause, which grows to the longest", () => {
    const client = new TestClient(config4)
    client.start()
    const first = client.sent[0]
    const waits: number[] = []
    for (let count = 0; count < 4; count++) {
      const before = client.now
      client.wait()
      waits.push(client.now - before)
      if (count < 3)
        expect(client.sent).toEqual([{ ...first, secs: [4, 12, 28][count] } as (typeof client.sent)[number]])
    }
    expect(waits).toEqual([4000, 8000, 16_000, 32_000])
    expect(client.step).toMatchObject({ send: [], listen: false, state: { phase: "waiting", failures: 1 } })
    const pauses: number[] = []
    for (let attempt = 0; attempt < 9; attempt++) {
      pauses.push((client.state.deadline ?? 0) - client.now)
      client.random = 0.25
      client.wait()
      client.random = 0.5
      expect(client.sent[0]?.xid).toBe(0x40000000)
      for (let count = 0; count < 4; count++) client.wait()
    }
    expect(pauses).toEqual([2000, 2000, 2000, 2000, 8000, 16_000, 32_000, 64_000, 64_000])
  })

  test("waits longer or shorter by chance, by a second at most", () => {
    for (const [random, wait] of [
      [0, 3000],
      [0.999999, 5000],
    ] as const) {
      const client = new TestClient(config4)
      client.random = random
      client.start()
      expect((client.state.deadline ?? 0) - client.now).toBe(wait)
    }
  })

  test("says in REQUEST how old its DISCOVER was", () => {
    const client = new TestClient(config4)
    client.start()
    client.wait()
    client.now += 3000
    client.frame(answer4(client.state, offer, "10.1.2.50"))
    expect(client.sent[0]?.secs).toBe(4)
  })

  test("asks for broadcasts when it is configured so", () => {
    const client = new TestClient({ ...config4, broadcast: true })
    client.start()
    expect(client.sent[0]?.flags).toBe(0x8000)
  })

  test("ignores frames that are not for it", () => {
    const client = new TestClient(config4)
    client.start()
    const { state } = client
    const other = { ...state, config: { ...config4, mac: "0a:58:0a:01:02:04" } }
    for (const frame of [
      answer4(state, offer, "10.1.2.50", {}, state.xid + 1),
      answer4(other, offer, "10.1.2.50"),
      answer4(state, ack, "10.1.2.50"),
      answer4(state, nak, "0.0.0.0"),
    ]) {
      client.frame(frame)
      expect(client.state).toEqual(state)
      expect(client.step.send).toEqual([])
    }
  })

  test("says why it ignores an offer", () => {
    const client = new TestClient(config4)
    client.start()
    client.frame(answer4(client.state, offer, "10.1.2.50", { 1: "" }))
    expect(client.state).toMatchObject({
      phase: "selecting",
      seen: "OFFER of 10.1.2.50 from 10.1.2.1 (ignored: no subnet mask (option 1))",
    })
  })

  test("is bound with the mask that was offered when the ACK does not say it again", () => {
    const client = new TestClient(config4)
    client.start()
    client.frame(answer4(client.state, offer, "10.1.2.50", { 1: "ffff0000" }))
    client.frame(answer4(client.state, ack, "10.1.2.50", { 1: "" }))
    expect(client.step.changes).toMatchObject([{ kind: "bound", lease: { address: "10.1.2.50/16" } }])
  })

  test("ignores answers while it pauses", () => {
    const client = new TestClient(config4)
    client.start()
    while (client.state.phase !== "waiting") client.wait()
    const { state } = client
    for (const type of [offer, ack, nak]) expect(client.frame(answer4(state, type, "10.1.2.50")).state).toEqual(state)
  })

  test("ignores the answer of another server than the one that it asked, and begins again when that one refuses", () => {
    const client = new TestClient(config4)
    client.start()
    client.frame(answer4(client.state, offer, "10.1.2.50"))
    for (const type of [ack, nak]) client.frame(answer4(client.state, type, "10.1.2.50", { 54: "0a010202" }))
    expect(client.state.phase).toBe("requesting")
    client.frame(answer4(client.state, nak, "0.0.0.0", { 56: "6e6f" }))
    expect(client.state).toMatchObject({ phase: "waiting", failures: 1, seen: 'NAK from 10.1.2.1: "no"' })
    client.wait()
    expect(client.sent[0]?.options[53]).toBe(discover)
  })
})

describe("a probe", () => {
  const probing = () => {
    const client = new TestClient({ ...config4, probeMs: 300 })
    client.start()
    client.frame(answer4(client.state, offer, "10.1.2.50"))
    client.frame(answer4(client.state, ack, "10.1.2.50"))
    return client
  }

  test("is sent three times, and the lease bound when nothing answers", () => {
    const client = probing()
    const probe = encodeProbe(clientMac, ip("10.1.2.50"))
    expect(client.step).toMatchObject({ changes: [], listen: true })
    expect(client.step.send).toEqual([probe])
    expect(client.wait().send).toEqual([probe])
    expect(client.wait().send).toEqual([probe])
    client.frame(probe) // the client's own probe, which its socket receives too
    expect(client.wait()).toMatchObject({ send: [], changes: [{ kind: "bound" }] })
    expect(client.now).toBe(1_000_300)
  })

  test("that is answered makes the client decline, wait, and ask again", () => {
    const client = probing()
    client.frame(encodeProbe("0a:58:0a:01:02:09", ip("10.1.2.50")))
    expect(client.sent).toMatchObject([
      { ...everyone, secs: 0, options: { 53: declined, 50: "0a010232", 54: "0a010201", 61: config4.clientId } },
    ])
    expect(client.step.changes).toEqual([])
    expect(client.state).toMatchObject({ phase: "waiting", seen: "10.1.2.50 in use by 0a:58:0a:01:02:09" })
    client.wait()
    expect(client.now).toBe(1_004_000)
    expect(client.sent[0]?.options[53]).toBe(discover)
  })
})

test("a client that ends before its ACK has arrived releases the address that the server may have leased", () => {
  const client = new TestClient(config4)
  client.start()
  expect(client.on({ kind: "release" }).send).toEqual([])
  const later = new TestClient(config4)
  later.start()
  later.frame(answer4(later.state, offer, "10.1.2.50"))
  later.on({ kind: "release" })
  expect(later.sent[0]?.options[53]).toBe(released)
})
