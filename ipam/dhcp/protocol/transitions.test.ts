import { expect, test } from "bun:test"
import { encodeProbe } from "./frames.ts"
import * as captured from "./testing/captured.ts"
import { answer4, answer6, association6, config4, config6, ip, TestClient } from "./testing/link.ts"
import type { Phase } from "./types.ts"

/** Message types and status codes (RFC 2132, 9.6; RFC 8415, 7.3 and 7.5). */
const types4 = { OFFER: 2, ACK: 5, NAK: 6 } as const
const types6 = { ADVERTISE: 2, REPLY: 7 } as const
const statuses = { NoBinding: 3, NotOnLink: 4 } as const

/** Passes an event to a client. `event` is a name in the table of client.ts. */
function happen(client: TestClient, event: string): void {
  if (event === "start" || event === "release") client.on({ kind: event })
  else if (event === "T1") client.wait()
  else if (event === "T2") while (client.state.phase === "renewing") client.wait()
  else if (event === "the end") while (client.state.lease) client.wait()
  else if (event === "silence") for (const { phase } = client.state; client.state.phase === phase; ) client.wait()
  else if (event === "conflict") client.frame(encodeProbe("0a:58:0a:01:02:09", ip("10.1.2.50")))
  else if (event === "advertisement") client.frame(captured.routerAdvertisement)
  else if (Object.hasOwn(types4, event)) {
    client.frame(answer4(client.state, types4[event as keyof typeof types4], "10.1.2.50"))
  } else if (Object.hasOwn(types6, event)) {
    client.frame(answer6(client.state, types6[event as keyof typeof types6], [association6({})]))
  } else {
    const status = [13, Uint8Array.of(0, statuses[event as keyof typeof statuses])] as const
    client.frame(answer6(client.state, types6.REPLY, [status]))
  }
}

const acquire = "start OFFER ACK"
const acquire6 = "start advertisement ADVERTISE REPLY"

// RFC 2131, figure 5.
test.each<[Phase, string, string, Phase]>([
  ["init", "", "start", "selecting"],
  ["selecting", "start", "OFFER", "requesting"],
  ["selecting", "start", "silence", "waiting"],
  ["requesting", "start OFFER", "ACK", "bound"],
  ["requesting", "start OFFER", "NAK", "waiting"],
  ["requesting", "start OFFER", "silence", "waiting"],
  ["waiting", "start silence", "silence", "selecting"],
  ["bound", acquire, "T1", "renewing"],
  ["bound", acquire, "start", "rebooting"],
  ["renewing", `${acquire} T1`, "ACK", "bound"],
  ["renewing", `${acquire} T1`, "NAK", "selecting"],
  ["renewing", `${acquire} T1`, "T2", "rebinding"],
  ["rebinding", `${acquire} T1 T2`, "ACK", "bound"],
  ["rebinding", `${acquire} T1 T2`, "NAK", "selecting"],
  ["rebinding", `${acquire} T1 T2`, "the end", "selecting"],
  ["rebooting", `${acquire} start`, "ACK", "bound"],
  ["rebooting", `${acquire} start`, "NAK", "selecting"],
  ["bound", acquire, "release", "ended"],
])("DHCPv4: %s, after %p, by %s: %s", (from, before, event, to) => {
  const client = new TestClient({ ...config4, timeoutMs: 500 })
  for (const each of before.split(" ").filter(Boolean)) happen(client, each)
  expect(client.state.phase).toBe(from)
  happen(client, event)
  expect(client.state.phase).toBe(to)
})

// RFC 5227, 2.1.1, and RFC 2131, 3.1, 5.
test.each<[string, Phase]>([
  ["silence", "bound"],
  ["conflict", "waiting"],
])("DHCPv4: probing, by %s: %s", (event, to) => {
  const client = new TestClient({ ...config4, probeMs: 300 })
  for (const each of acquire.split(" ")) happen(client, each)
  expect(client.state.phase).toBe("probing")
  happen(client, event)
  expect(client.state.phase).toBe(to)
})

// RFC 8415, 18.2.
test.each<[Phase, string, string, Phase]>([
  ["init", "", "start", "selecting"],
  ["selecting", "start", "ADVERTISE", "requesting"],
  ["selecting", "start", "silence", "waiting"],
  ["requesting", "start ADVERTISE", "REPLY", "routing"],
  ["requesting", "start advertisement ADVERTISE", "REPLY", "bound"],
  ["requesting", "start ADVERTISE", "NotOnLink", "waiting"],
  ["requesting", "start ADVERTISE", "silence", "waiting"],
  ["routing", "start ADVERTISE REPLY", "advertisement", "bound"],
  ["routing", "start ADVERTISE REPLY", "silence", "bound"],
  ["waiting", "start silence", "silence", "selecting"],
  ["bound", acquire6, "T1", "renewing"],
  ["bound", acquire6, "start", "rebooting"],
  ["renewing", `${acquire6} T1 advertisement`, "REPLY", "bound"],
  ["renewing", `${acquire6} T1`, "NoBinding", "requesting"],
  ["renewing", `${acquire6} T1`, "NotOnLink", "selecting"],
  ["renewing", `${acquire6} T1`, "T2", "rebinding"],
  ["rebinding", `${acquire6} T1 T2 advertisement`, "REPLY", "bound"],
  ["rebinding", `${acquire6} T1 T2`, "the end", "selecting"],
  ["rebooting", `${acquire6} start`, "REPLY", "bound"],
  ["rebooting", `${acquire6} start`, "NotOnLink", "selecting"],
  ["rebooting", `${acquire6} start`, "silence", "bound"],
  ["bound", acquire6, "release", "ended"],
])("DHCPv6: %s, after %p, by %s: %s", (from, before, event, to) => {
  const client = new TestClient(config6)
  for (const each of before.split(" ").filter(Boolean)) happen(client, each)
  expect(client.state.phase).toBe(from)
  happen(client, event)
  expect(client.state.phase).toBe(to)
})
