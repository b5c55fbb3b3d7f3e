import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Lab } from "../../pkg/libcni/testing/lab.ts"
import { age, usageBar } from "../../tools/tables.ts"
import { recordingTerminal } from "../../tools/testing.ts"
import { cni } from "./main.ts"

/** Returns a lab with a network of six addresses. Two are reserved in the file format of the reference suite. */
function labWithLeases() {
  const lab = new Lab()
  const dataDir = join(lab.confDir, "../data")
  mkdirSync(join(dataDir, "net"), { recursive: true })
  writeFileSync(join(dataDir, "net/lock"), "")
  writeFileSync(join(dataDir, "net/10.1.0.2"), "c1\r\neth0")
  writeFileSync(join(dataDir, "net/10.1.0.3"), "c2\r\nnet1")
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "10.1.0.0/29" }]] }
  lab.conf("net.conflist", { cniVersion: "1.1.0", name: "net", plugins: [{ type: "bridge", ipam }] })
  return { lab, dataDir }
}

async function run(lab: Lab, args: string[]) {
  const terminal = recordingTerminal({})
  const code = await cni([...args, "--conf-dir", lab.confDir], terminal)
  return { code, out: terminal.out, err: terminal.err }
}

test("ipam ls shows how full the ranges are, and who holds which address", async () => {
  const { lab } = labWithLeases()
  using _ = lab
  const { code, out } = await run(lab, ["ipam", "ls", "net"])
  expect(code).toBe(0)
  expect(out).toContain("[########············]  2 of 5 used, 3 free  10.1.0.1-10.1.0.6")
  expect(out).toMatch(/10\.1\.0\.2 +c1 +eth0 +\d+s +\?/)
  expect(out).toMatch(/10\.1\.0\.3 +c2 +net1/)
})

test("ipam ls --json is a list of networks with range sets and leases", async () => {
  const { lab } = labWithLeases()
  using _ = lab
  const { out } = await run(lab, ["ipam", "ls", "net", "--json"])
  const [network] = JSON.parse(out)
  expect(network).toMatchObject({
    network: "net",
    rangeSets: [{ ranges: "10.1.0.1-10.1.0.6", used: 2, free: 3, total: 5 }],
  })
  expect(network.leases.map((lease: { containerId: string }) => lease.containerId).sort()).toEqual(["c1", "c2"])
})

test("ipam ls without a network lists all that have reservations", async () => {
  const { lab, dataDir } = labWithLeases()
  using _ = lab
  mkdirSync(join(dataDir, "other"))
  writeFileSync(join(dataDir, "other/lock"), "")
  const { out } = await run(lab, ["ipam", "ls", "--data-dir", dataDir, "--json"])
  expect(JSON.parse(out).map(({ network }: { network: string }) => network)).toEqual(["net", "other"])
})

test("ipam release takes back one address, or what a container holds, and says so", async () => {
  const { lab } = labWithLeases()
  using _ = lab
  expect((await run(lab, ["ipam", "release", "net", "--address", "10.1.0.2"])).out).toBe("Released 10.1.0.2\n")
  const byContainer = await run(lab, ["ipam", "release", "net", "--container", "c2", "--ifname", "net1", "--json"])
  expect(JSON.parse(byContainer.out)).toEqual({ released: ["10.1.0.3"] })
  expect(JSON.parse((await run(lab, ["ipam", "ls", "net", "--json"])).out)[0].leases).toEqual([])
})

test("releasing an address that is not reserved is an error that names it; asking for nothing is a usage error", async () => {
  const { lab } = labWithLeases()
  using _ = lab
  const nothing = await run(lab, ["ipam", "release", "net", "--address", "10.1.0.6"])
  expect(nothing).toMatchObject({ code: 1, err: expect.stringContaining("10.1.0.6") })
  expect((await run(lab, ["ipam", "release", "net"])).code).toBe(2)
  expect((await run(lab, ["ipam", "ls", "../net"])).code).toBe(1)
})

test("a usage bar shows anything that is used, and is full only when nothing is free", () => {
  expect(usageBar(0, 254n)).toBe(`[${"·".repeat(20)}]`)
  expect(usageBar(1, 65_000n)).toBe(`[#${"·".repeat(19)}]`)
  expect(usageBar(253, 254n)).toBe(`[${"#".repeat(19)}·]`)
  expect(usageBar(254, 254n)).toBe(`[${"#".repeat(20)}]`)
  expect(usageBar(3, 2n ** 64n)).toBe(`[#${"·".repeat(19)}]`)
})

test("an age is told in its largest unit", () => {
  expect([age(0), age(59_000), age(60_000), age(7_200_000), age(200_000_000)]).toEqual(["0s", "59s", "1m", "2h", "2d"])
})
