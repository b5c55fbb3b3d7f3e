import { expect, test } from "bun:test"
import { type Namespace, outside, pingOnce } from "../lab/mod.ts"
import { expectAnswer, expectReached, type FirewalledPod, FirewallLab, testEach } from "./firewall-lab.ts"

/** Returns for IPv4 and IPv6 whether the container's address answers to a namespace. */
function reaches(from: Namespace, to: FirewalledPod): Promise<boolean[]> {
  return Promise.all([pingOnce(from, to.ip), pingOnce(from, to.ip6)])
}

const none = [false, false]

/** Checks that the container reaches the other machine, and that the other machine and the host reach the container. */
async function expectOutsideReached(lab: FirewallLab, pod: FirewalledPod): Promise<void> {
  await expectAnswer(pod.namespace, outside.ip)
  await expectAnswer(pod.namespace, outside.ip6)
  await expectReached(lab.outside, pod)
  await expectReached(lab.host, pod)
}

testEach("open: containers of one bridge and of two reach each other", async (lab) => {
  const [a, b, c] = [await lab.addPod(), await lab.addPod(), await lab.addPod({ network: 2, policy: "open" })]
  await expectReached(a.namespace, b)
  await expectReached(a.namespace, c)
  await expectReached(c.namespace, a)
  await expectOutsideReached(lab, a)
})

testEach("same-bridge: containers of one bridge reach each other, those of two do not", async (lab) => {
  const policy = "same-bridge"
  const [a, b, c] = [
    await lab.addPod({ policy }),
    await lab.addPod({ policy }),
    await lab.addPod({ network: 2, policy }),
  ]
  await expectReached(a.namespace, b)
  expect(await Promise.all([reaches(a.namespace, c), reaches(c.namespace, b)])).toEqual([none, none])
  await expectOutsideReached(lab, a)
  // As with the Go plugin, a policy does not separate a bridge from bridges without a policy.
  const open = await lab.addPod({ network: 3 })
  await expectReached(open.namespace, a)
})

testEach("isolated: containers reach no others, of their bridge or of another", async (lab) => {
  const policy = "isolated"
  const [a, b, c] = [
    await lab.addPod({ policy }),
    await lab.addPod({ policy }),
    await lab.addPod({ network: 2, policy }),
  ]
  expect(await Promise.all([reaches(a.namespace, b), reaches(a.namespace, c)])).toEqual([none, none])
  await expectAnswer(a.namespace, "10.1.0.1")
  await expectOutsideReached(lab, a)
})

testEach("isolated and same-bridge are kept apart from each other", async (lab) => {
  const [a, b] = [await lab.addPod({ policy: "isolated" }), await lab.addPod({ network: 2, policy: "same-bridge" })]
  expect(await Promise.all([reaches(a.namespace, b), reaches(b.namespace, a)])).toEqual([none, none])
})

test("nftables: isolated holds also where bridged packets pass the packet filters of IP", async () => {
  await using lab = await FirewallLab.create()
  await lab.passBridgedPackets(true)
  const [a, b] = [await lab.addPod({ policy: "isolated" }), await lab.addPod({ policy: "isolated" })]
  expect(await reaches(a.namespace, b)).toEqual(none)
})

testEach("ptp: a policy keeps each container apart, by the host's end of its pair", async (lab) => {
  const pods: FirewalledPod[] = []
  for (const _ of [1, 2]) pods.push(await lab.addPod({ type: "ptp", policy: "same-bridge" }))
  const [a, b] = pods as [FirewalledPod, FirewalledPod]
  expect(await reaches(a.namespace, b)).toEqual(none)
  await expectAnswer(a.namespace, outside.ip)
  await b.remove()
  const open = await lab.addPod({ type: "ptp", network: 3, policy: "open" })
  await expectReached(open.namespace, a)
})

testEach(
  "another policy takes effect with the network's next ADD, for all of its containers on the bridge",
  async (lab) => {
    const [a, b] = [await lab.addPod({ policy: "isolated" }), await lab.addPod({ policy: "isolated" })]
    const other = await lab.addPod({ network: 2, policy: "same-bridge" })
    expect(await pingOnce(a.namespace, b.ip)).toBe(false)
    await lab.addPod({ policy: "same-bridge" })
    await expectReached(a.namespace, b)
    expect(await pingOnce(a.namespace, other.ip)).toBe(false)
    await lab.addPod({ policy: "open" })
    await expectAnswer(a.namespace, other.ip)
    await lab.addPod({ policy: "isolated" })
    // Containers that were attached under policy "open" have no port in the table. Only their own ADD can add it.
    if (lab.backend.name === "nftables") await expectAnswer(a.namespace, b.ip)
    else expect(await pingOnce(a.namespace, b.ip)).toBe(false)
  },
)

testEach(
  "of two networks on a bridge the stricter policy counts, until its last container no longer exists",
  async (lab) => {
    const a = await lab.addPod({ policy: "same-bridge" })
    const strict = await lab.addPod({ name: "strict", policy: "isolated" })
    const b = await lab.addPod({ policy: "same-bridge" })
    await lab.passBridgedPackets(true)
    expect(await pingOnce(a.namespace, b.ip)).toBe(false)
    await strict.remove()
    await expectAnswer(a.namespace, b.ip)
  },
)

testEach("a policy goes with the last container of its bridge", async (lab) => {
  const policy = "same-bridge"
  const [a, b, other] = [
    await lab.addPod({ policy }),
    await lab.addPod({ policy }),
    await lab.addPod({ network: 2, policy }),
  ]
  await a.remove()
  expect(await pingOnce(b.namespace, other.ip)).toBe(false)
  await b.remove()
  const open = await lab.addPod({ policy: "open" })
  await expectAnswer(open.namespace, other.ip)
})
