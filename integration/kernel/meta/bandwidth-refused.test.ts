/** Tests the bandwidth plugin when the kernel refuses requests. The plugin runs in this process. */
import { afterAll, afterEach, beforeAll, expect, spyOn } from "bun:test"
import { bandwidth } from "../../../meta/bandwidth/main.ts"
import { RouteSocket } from "../../../pkg/netlink/mod.ts"
import { testWith } from "../../lab/mod.ts"
import { callPlugin } from "../in-process.ts"
import { openRefusingSocket, type Refusals } from "../refusing-kernel.fixture.ts"
import { add, both, call, configOf, connect, done, host, ifb, inside, needs, shown, useHost } from "./limits.ts"

useHost()

const [DELLINK, DELQDISC, GETQDISC, GETTFILTER, GETNSID] = [17, 37, 38, 46, 90]
const [EPERM, ENOMEM, ENODEV] = [1, 12, 19]
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
  refusals.set(DELLINK, ENODEV) // another program deleted the link first
  done("DEL", both)
})

testWith(
  needs,
  "a device in a container that cannot be removed fails GC, unless it no longer exists in the meantime",
  async () => {
    await connect()
    add(inside)
    const config = { ...configOf({ "cni.dev/valid-attachments": [] }), prevResult: undefined }
    refusals.set(DELLINK, EPERM)
    expect(callPlugin(host, bandwidth, { verb: "GC", config }).exitCode).toBe(1)
    refusals.set(DELLINK, ENODEV)
    expect(callPlugin(host, bandwidth, { verb: "GC", config }).exitCode).toBe(0)
  },
)

testWith(needs, "what cannot be listed or removed keeps its device, by which the next DEL or GC finds it", async () => {
  const config = { ...configOf({ "cni.dev/valid-attachments": [] }), prevResult: undefined }
  for (const verb of ["DEL", "GC"] as const) {
    const remove = () => (verb === "DEL" ? call("DEL", both) : callPlugin(host, bandwidth, { verb, config }))
    await connect()
    const before = await shown()
    for (const refused of [GETTFILTER, GETQDISC, DELQDISC]) {
      add(both)
      refusals.set(refused, ENOMEM)
      expect({ refused, exitCode: remove().exitCode }).toEqual({ refused, exitCode: 1 })
      const kept = await shown()
      expect(kept.filter((line) => line.startsWith(`${ifb} mtu`))).toHaveLength(1)
      // The hook stays if it may have filters of other programs.
      if (refused === GETTFILTER) expect(kept).toContain("veth1 qdisc ingress ffff: parent ffff:fff1")
      refusals.clear()
      expect({ refused, exitCode: remove().exitCode }).toEqual({ refused, exitCode: 0 })
      expect(await shown()).toEqual(before)
    }
    await host.exec("ip", ["link", "del", "veth1"])
  }
})

testWith(needs, "containers whose namespaces cannot be listed do not hide what else GC could not do", async () => {
  await connect()
  add(both)
  refusals.set(DELLINK, EPERM)
  refusals.set(GETNSID, ENOMEM)
  const config = { ...configOf({ "cni.dev/valid-attachments": [] }), prevResult: undefined }
  const { exitCode, json } = callPlugin(host, bandwidth, { verb: "GC", config })
  expect(exitCode).toBe(1)
  expect(json).toMatchObject({
    msg: expect.stringMatching(/^2 steps failed: .*delete ifb.*list the links of all containers/),
  })
})
