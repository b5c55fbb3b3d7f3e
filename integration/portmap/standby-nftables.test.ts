import { expect, test } from "bun:test"
import { askEcho, expectNoEcho, expectUnchanged, ruleBackends, succeed, takeSnapshot } from "../lab/mod.ts"
import { hostAddresses, PortmapLab } from "./portmap-lab.ts"
import { countMessages, inject } from "./trace.ts"
import { createTwins, expectAll, leaveBy } from "./twins.ts"

const { ip, ip6 } = hostAddresses
const web = { containerPort: 80, protocol: "tcp" } as const

test("killed at any message, the second one's ADD and the first one's DEL end well with the next DEL", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const { first, second, peer, mappings } = await createTwins(lab)
  await using _ = peer
  await succeed(first.map(mappings))
  const alone = await takeSnapshot(lab.host)
  // These stay until the last mapping is deleted.
  const isNote = ({ line }: { line: string }) => /localnet_links element "br-other"|br-other.*route_localnet/.test(line)
  second.mappings = mappings
  let nth = 1
  for (; await inject(second, { verb: "ADD", name: "sendto", effect: "signal=KILL", nth }); nth++) {
    await succeed(second.unmap())
    expectUnchanged(alone, await takeSnapshot(lab.host), isNote)
  }
  expect(nth).toBeGreaterThan(10)
  let last: string | undefined
  for (nth = 1; await inject(first, { verb: "DEL", name: "sendto", effect: "signal=KILL", nth }); nth++) {
    await succeed(second.check())
    await succeed(first.unmap())
    const rules = await lab.rules()
    last ??= rules
    expect(rules).toBe(last)
    await succeed(second.unmap())
    await succeed(first.map(mappings))
    await succeed(second.map(mappings))
  }
  expect(nth).toBeGreaterThan(10)
})

test("standing by and taking over cost the same with twenty other mappings and with two thousand", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const { first, second, peer, mappings } = await createTwins(lab)
  await using _ = peer
  const crowd = await lab.addPod()
  second.mappings = mappings
  const counts: { sent: number; received: number }[][] = []
  for (const count of [20, 2000]) {
    await succeed(crowd.map(Array.from({ length: count }, (_, n) => ({ ...web, hostPort: 10_000 + n }))))
    await succeed(first.map(mappings))
    counts.push([
      await countMessages(second, "ADD"),
      await countMessages(second, "CHECK"),
      await countMessages(second, "DEL"),
      await countMessages(second, "ADD"),
      await countMessages(first, "DEL"),
    ])
    await succeed(second.unmap())
    await succeed(crowd.unmap())
  }
  const [few = [], many = []] = counts
  // The beginning of a dump shows whether the mapping is the last one. Only the call that needs a second dump reads the
  // first to its end.
  const isReadToItsEnd = (at: number) => at === 2
  for (const [at, { sent, received }] of few.entries()) {
    const more = isReadToItsEnd(at) ? { sent: 1, received: 30 } : { sent: 0, received: 0 }
    expect(many[at]?.sent).toBeWithin(sent, sent + more.sent + 1)
    expect(many[at]?.received).toBeWithin(received, received + more.received + 1)
  }
})

test("conditions of who stands by hold from when it takes over, and those of the first until then", async () => {
  await using lab = await PortmapLab.create(ruleBackends[0])
  const { first, second, peer, before, mappings } = await createTwins(lab)
  await using _ = peer
  const closed = { conditionsV4: ["ip saddr != 203.0.113.9"], conditionsV6: ["ip6 saddr != 2001:db8:113::9"] }
  await succeed(first.map(mappings))
  for (const _again of [1, 2]) await succeed(second.map(mappings, closed))
  await succeed(second.check(closed))
  await expectAll(lab, first)
  await succeed(first.unmap())
  await succeed(second.check(closed))
  await leaveBy(second)
  for (const [port, address] of [
    [8080, ip],
    [8080, ip6],
    [8081, ip],
    [8082, ip6],
  ] as const) {
    await expectNoEcho(lab.outside, { transport: port === 8082 ? "udp" : "tcp", address, port })
  }
  await askEcho(lab.host, { transport: "tcp", address: "127.0.0.1", port: 8080 })
  await succeed(second.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))

  await succeed(first.map(mappings, closed))
  await succeed(second.map(mappings))
  await expectNoEcho(lab.outside, { transport: "tcp", address: ip, port: 8080 })
  await succeed(first.unmap())
  await expectAll(lab, second)
  await succeed(second.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))

  await succeed(first.map(mappings))
  await succeed(second.map(mappings, closed))
  await succeed(second.unmap())
  expect(await lab.rules()).not.toContain("only-")
  await succeed(second.map(mappings, closed))
  await succeed(second.map(mappings))
  expect(await lab.rules()).not.toContain("only-")
  for (const pod of [first, second]) await succeed(pod.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))
})
