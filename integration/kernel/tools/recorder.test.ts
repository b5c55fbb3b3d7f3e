/** What a plugin writes into the flight recorder, run from its sources on a host that has one. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { emptyRing, readRing } from "../../../pkg/flight/mod.ts"
import { HostNamespace } from "../../lab/mod.ts"

let host: HostNamespace
beforeAll(async () => {
  host = await HostNamespace.create("recorder")
})
afterAll(() => host[Symbol.asyncDispose]())

const plugin = join(import.meta.dir, "../../../ipam/static/main.ts")
const [id, parent] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]

/** Calls the plugin on a host with a new recorder; returns the exit code and the lines. */
async function call(env: Record<string, string>, ipam: object, cniVersion = "1.1.0") {
  const ring = host.file("/run/cni/flight-recorder")
  await writeFile(ring, emptyRing())
  const input = JSON.stringify({ cniVersion, name: "lab", type: "x", ipam: { type: "static", ...ipam } })
  const names = Object.entries({ CNI_PATH: "/opt/cni/bin", ...env }).map(([name, value]) => `${name}=${value}`)
  const { exitCode } = await host.tryExec("env", ["-i", ...names, process.execPath, plugin], { input })
  const lines = (readRing(await readFile(ring)) ?? []).map(({ line }) => line)
  return { exitCode, lines }
}

const attachment = { CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_NETNS: "/run/netns/absent" }
const addresses = { addresses: [{ address: "10.1.0.5/24" }, { address: "fd00::5/64" }] }
const stages = { input: expect.any(Number), plugin: expect.any(Number) }
const common = { time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/), ms: expect.any(Number), stages }
const ofAttachment = {
  plugin: "static",
  network: "lab",
  container: "c1",
  interface: "eth0",
  netns: "/run/netns/absent",
}

test.each(["1.1.0", "0.2.0"])(
  "an ADD of version %s is a line with its owner, its addresses and its trace",
  async (version) => {
    const TRACEPARENT = `00-${id}-${parent}-01`
    const { exitCode, lines } = await call({ ...attachment, CNI_COMMAND: "ADD", TRACEPARENT }, addresses, version)
    expect(exitCode).toBe(0)
    expect(lines).toEqual([
      {
        ...common,
        ...ofAttachment,
        verb: "ADD",
        exitCode: 0,
        ips: ["10.1.0.5/24", "fd00::5/64"],
        trace: { id, parent, span: expect.stringMatching(/^[0-9a-f]{16}$/) },
      },
    ])
  },
)

test("a call that fails is a line with its error, and one that gives nothing has no addresses", async () => {
  const failed = await call(
    { ...attachment, CNI_COMMAND: "ADD", TRACEPARENT: "none" },
    { addresses: [{ address: "x" }] },
  )
  expect(failed.exitCode).toBe(1)
  expect(failed.lines).toEqual([
    {
      ...common,
      ...ofAttachment,
      verb: "ADD",
      exitCode: 1,
      code: 7,
      error: "the 'address' field is expected to be in CIDR notation, got: 'x'",
    },
  ])
  const deleted = await call(
    { CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0", CNI_NETNS: "", CNI_COMMAND: "DEL" },
    addresses,
  )
  const { netns, ...withoutNamespace } = ofAttachment
  expect(deleted.lines).toEqual([{ ...common, ...withoutNamespace, verb: "DEL", exitCode: 0 }])
})

test("VERSION, and a call without a command, are not kept", async () => {
  expect((await call({ CNI_COMMAND: "VERSION" }, {})).lines).toEqual([])
  expect((await call({}, {})).lines).toEqual([])
})
