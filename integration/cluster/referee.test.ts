import { expect, test } from "bun:test"
import { HostNamespace, waitFor } from "../lab/mod.ts"
import { containerLabel, Referee } from "./referee.ts"

test("the referee names an address that two containers have at one time, and no other", async () => {
  await using host = await HostNamespace.create()
  const pods = [await host.addContainer(`a${containerLabel}`), await host.addContainer(`b${containerLabel}`)]
  const other = await host.addContainer("no-container")
  const [one, two] = pods
  if (!one || !two) throw new Error("no containers")
  const give = async (pod: typeof one, address: string) => {
    await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
    await pod.exec("ip", ["address", "add", address, "dev", "eth0"])
  }
  await give(one, "10.64.0.2/24")
  await give(two, "10.64.0.2/24")
  await give(other, "10.64.0.2/24")
  for (const pod of pods) await pod.exec("ip", ["address", "add", "fd00::2/64", "dev", "lo"])
  await using referee = await Referee.start(10)
  await waitFor(() => referee.findings > 0, "a finding")
  const { twice, containers, addresses } = await referee.end()
  expect({ containers, addresses }).toEqual({ containers: 2, addresses: 2 })
  expect([...new Set(twice.map((line) => line.split(" ")[1]))]).toEqual(["10.64.0.2"])
})
