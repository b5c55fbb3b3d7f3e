import { expect } from "bun:test"
import { type Namespace, testWith } from "../lab/mod.ts"
import { Limited, type Maker, qdiscsOf } from "./limited.ts"
import { expectRate, transfer } from "./measure.ts"

const rate = 4_000_000
const keys = { ingressRate: "4Mbit", egressRate: "4Mbit" }

/** More bytes than the default burst of 32 KiB and the queue. */
const amount = { bytes: 1_500_000, skip: 250_000 }

/** Returns a transfer to the container ("in") or from it ("out"). `peer` has the gateway's address. */
function over({ pod, addresses }: Limited, peer: Namespace, way: "in" | "out") {
  if (way === "in") return { from: peer, to: pod, address: addresses.pod, ...amount }
  return { from: pod, to: peer, address: addresses.gateway, ...amount }
}

const places: [maker: Maker, more: object, where: string][] = [
  ["bridge", {}, "on the host"],
  ["bridge", { shapeIn: "container" }, "in the container"],
  ["ptp", { shapedSubnets: ["10.22.0.0/16", "192.0.2.0/24"] }, "on the host, by subnets"],
  ["macvlan", {}, "in the container"],
  ["host-device", { unshapedSubnets: ["192.0.2.0/24"] }, "in the container, by subnets"],
]

for (const [maker, more, where] of places) {
  for (const way of ["in", "out"] as const) {
    const needs = maker === "macvlan" ? (["ifb", "tbf", "macvlan"] as const) : (["ifb", "tbf"] as const)
    testWith(
      needs,
      `TCP ${way === "in" ? "to" : "from"} a container by ${maker}, limited ${where}, is within 10 % of the rate`,
      async () => {
        await using limited = await Limited.create({ ...keys, ...more }, { maker })
        const { host, bandwidth } = limited
        if (maker === "macvlan" || maker === "host-device") {
          await host.exec("ip", ["address", "add", `${limited.addresses.gateway}/24`, "dev", "lan"])
        }
        await bandwidth.add()
        await expectRate(rate, over(limited, host, way))
      },
    )
  }
}

/** A rate many times the limit, but far below the speed of any machine. */
const fast = 10 * rate
const much = { bytes: 6_000_000, skip: 250_000 }

testWith(["ifb", "tbf"], "one direction alone is limited, the other is as fast as ever", async () => {
  await using limited = await Limited.create({ egressRate: "4Mbit" })
  await limited.bandwidth.add()
  expect(await transfer({ ...over(limited, limited.host, "in"), ...much })).toBeGreaterThan(fast)
  await expectRate(rate, over(limited, limited.host, "out"))
})

testWith(["ifb", "tbf"], "what is sent to other subnets than those that are limited is as fast as ever", async () => {
  await using limited = await Limited.create({ ...keys, unshapedSubnets: ["10.22.0.0/16"] })
  await limited.bandwidth.add()
  for (const way of ["in", "out"] as const) {
    expect(await transfer({ ...over(limited, limited.host, way), ...much })).toBeGreaterThan(fast)
  }
})

testWith(["ifb", "tbf"], "after DEL traffic is as fast as ever, in both directions", async () => {
  await using limited = await Limited.create(keys)
  await limited.bandwidth.add()
  await limited.bandwidth.del()
  for (const way of ["in", "out"] as const) {
    expect(await transfer({ ...over(limited, limited.host, way), ...much })).toBeGreaterThan(fast)
  }
  expect(await qdiscsOf(limited.host)).toEqual([])
})

// If its ticks were cut to 32 bits, the burst would be 155,276 bytes, and the rest would take a quarter of an hour
// (KW-BW3).
testWith(["ifb", "tbf"], "a large burst at a low rate goes at once, whole", async () => {
  await using limited = await Limited.create({ ingressRate: 8000, ingressBurst: 40_000_000 })
  await limited.bandwidth.add()
  expect(await transfer({ ...over(limited, limited.host, "in"), bytes: 2_000_000, skip: 0 })).toBeGreaterThan(fast)
})
