/**
 * What the kernel refuses the bandwidth plugin, called in this process.
 */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, spyOn } from "bun:test"
import { bandwidth } from "../../meta/bandwidth/main.ts"
import { RouteSocket } from "../../pkg/netlink/mod.ts"
import { patient, testWith } from "../lab/mod.ts"
import { callPlugin } from "./in-process.ts"
import { add, both, call, configOf, connect, done, host, inside, needs, useHost } from "./limits.ts"
import { openRefusingSocket, type Refusals } from "./refusing-kernel.fixture.ts"

setDefaultTimeout(patient(30_000))
useHost()

const [DELLINK, EPERM, ENODEV] = [17, 1, 19]
const refusals: Refusals = new Map()
let open: { mockRestore(): void }
beforeAll(() => {
  open = spyOn(RouteSocket, "open").mockImplementation(() => openRefusingSocket(refusals))
})
afterEach(() => refusals.clear())
afterAll(() => open.mockRestore())

testWith(needs, "a device of an earlier ADD that cannot be removed fails the next one, and DEL", async () => {
  await connect()
  add(both)
  refusals.set(DELLINK, EPERM)
  for (const verb of ["ADD", "DEL"] as const) {
    const { exitCode, json } = call(verb, both)
    expect(exitCode).toBe(1)
    expect(`${json.msg} ${json.details}`).toContain("EPERM")
  }
  refusals.set(DELLINK, ENODEV) // a program was quicker
  done("DEL", both)
})

testWith(needs, "a device in a container that cannot be removed fails GC, unless it has gone meanwhile", async () => {
  await connect()
  add(inside)
  const config = { ...configOf({ "cni.dev/valid-attachments": [] }), prevResult: undefined }
  refusals.set(DELLINK, EPERM)
  expect(callPlugin(host, bandwidth, { verb: "GC", config }).exitCode).toBe(1)
  refusals.set(DELLINK, ENODEV)
  expect(callPlugin(host, bandwidth, { verb: "GC", config }).exitCode).toBe(0)
})
