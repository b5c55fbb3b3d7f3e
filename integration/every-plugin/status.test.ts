import { expect, test } from "bun:test"
import { chmod } from "node:fs/promises"
import {
  builtPlugins,
  chooseIptables,
  expectUnchanged,
  fail,
  isAllocationTrace,
  pluginsAs,
  Stage,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"
import { writeAllowList } from "../tuning/chain.ts"

testPlugins(
  pluginsAs(),
  "#35 %s: STATUS ends with 0 in silence when ADD can be served, and changes nothing",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    await stage.settle()
    const { attachment } = await stage.attach()
    const before = await takeSnapshot(stage.host)
    expect(await attachment.run("STATUS", { prevResult: undefined })).toMatchObject({ exitCode: 0, stdout: "" })
    expectUnchanged(before, await takeSnapshot(stage.host))
    await attachment.add()
  },
  { forEachKind: true },
)

testPlugins(
  pluginsAs(),
  "#37 %s: ADD, CHECK, GC and DEL work on a host where STATUS has never been called",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment, pod, ifName } = await stage.attach()
    const result = await attachment.add()
    const attachments = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: ifName }] }
    for (const [verb, keys] of [
      ["CHECK", {}],
      ["GC", attachments],
      ["CHECK", {}],
      ["DEL", {}],
    ] as const) {
      expect(await attachment.run(verb, { prevResult: result, ...keys })).toMatchObject({ exitCode: 0, stdout: "" })
    }
  },
)

/** A pool with an address for one container and one for the gateway. */
const tiny = { ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/30" }]] } }

testPlugins(
  [...pluginsAs("interface"), "host-local"],
  "#35, #36 %s: STATUS ends with 0 when the range is full, and stderr says so; ADD is refused with the reason",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const [first, second] = [await stage.attach({ keys: tiny }), await stage.attach({ keys: tiny })]
    await first.attachment.add()
    const status = await second.attachment.run("STATUS")
    expect(status).toMatchObject({ exitCode: 0, stdout: "" })
    expect(status.stderr).toContain("range set 0 (10.22.0.1-10.22.0.2) is full, 1 of 1 addresses used")
    expect((await fail(second.attachment.run("ADD"))).msg).toContain("no IP addresses available in range set")
    await first.attachment.del()
    expect((await succeed(second.attachment.run("STATUS"))).stderr).toBe("")
    await second.attachment.add()
  },
)

const newReservations = "/var/lib/cni/networks/lab/.index/new"

/** Conditions under which ADD must fail, so that STATUS must report an error. loopback and static need no resources. */
const inabilities: {
  plugin: string
  what: string
  keys?: Record<string, unknown>
  before?: (stage: Stage) => Promise<unknown>
  /** Creates the condition after a first ADD. */
  cause?: (stage: Stage) => Promise<unknown>
  cure: (stage: Stage) => Promise<unknown>
}[] = [
  ...[...pluginsAs("interface"), "host-local"].map((plugin) => ({
    plugin,
    what: "the store of addresses takes no new ones",
    // ADD writes to this directory first. DEL deletes files in the directory above.
    cause: ({ host }: Stage) => host.exec("mount", ["-t", "tmpfs", "-o", "ro", "none", newReservations]),
    cure: ({ host }: Stage) => host.exec("umount", [newReservations]),
  })),
  ...[...pluginsAs("interface"), "host-local"].map((plugin) => ({
    plugin,
    what: "the file that resolvConf names does not exist",
    keys: { ipam: { ...tiny.ipam, ranges: [[{ subnet: "10.22.0.0/24" }]], resolvConf: "/run/cni/resolv.conf" } },
    before: ({ host }: Stage) => host.exec("touch", ["/run/cni/resolv.conf"]),
    cause: ({ host }: Stage) => host.exec("rm", ["/run/cni/resolv.conf"]),
    cure: ({ host }: Stage) => host.exec("touch", ["/run/cni/resolv.conf"]),
  })),
  {
    plugin: "bridge",
    what: "the bridge has another network's address",
    cause: async ({ host }) => {
      await host.exec("ip", ["address", "flush", "dev", "br-lab"])
      await host.exec("ip", ["address", "add", "10.22.9.9/16", "dev", "br-lab"])
    },
    cure: ({ host }) => host.exec("ip", ["address", "flush", "dev", "br-lab"]),
  },
  ...["firewall", "portmap"].map((plugin) => ({
    plugin,
    what: "the program that the backend needs is missing",
    keys: { backend: "iptables" },
    cause: ({ host }: Stage) => chooseIptables(host, "none"),
    cure: ({ host }: Stage) => chooseIptables(host, "nf_tables"),
  })),
  {
    plugin: "tuning",
    what: "the allow list forbids a sysctl",
    cause: ({ host }) => writeAllowList(host, ["^net\\.core\\."]),
    cure: ({ host }) => writeAllowList(host, ["^net\\."]),
  },
]

testPlugins(
  inabilities,
  "#36, #38 $plugin: STATUS is code 50 when $what; ADD is refused, DEL succeeds, and ADD again when it is over",
  async ({ plugin, keys = {}, before: prepare, cause, cure }) => {
    await using stage = await Stage.create(plugin)
    await prepare?.(stage)
    const first = await stage.attach({ keys })
    const second = await stage.attach({ keys })
    await first.attachment.add()
    await cause?.(stage)
    const before = await takeSnapshot(stage.host)
    expect((await fail(second.attachment.run("STATUS"))).code).toBe(50)
    expect((await fail(second.attachment.run("ADD"))).code).not.toBe(50)
    expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
    await succeed(first.attachment.run("DEL"))
    await cure(stage)
    await second.attachment.add()
  },
)

test("#35 bridge: STATUS ends with 0 as long as one range of each set will do", async () => {
  await using stage = await Stage.create("bridge")
  await stage.host.exec("ip", ["link", "add", "br-lab", "up", "type", "bridge"])
  await stage.host.exec("ip", ["address", "add", "10.23.0.1/24", "dev", "br-lab"])
  const pool = (...subnets: string[]) => ({ type: "host-local", ranges: [subnets.map((subnet) => ({ subnet }))] })
  const { attachment } = await stage.attach({ keys: { ipam: pool("10.22.0.0/24", "10.23.0.0/16") } })
  expect(await attachment.run("STATUS")).toMatchObject({ exitCode: 0 })
  expect((await fail(attachment.run("STATUS", { ipam: pool("10.23.0.0/16") }))).code).toBe(50)
  expect(await attachment.run("STATUS", { ipam: pool("10.23.0.0/16"), forceAddress: true })).toMatchObject({
    exitCode: 0,
  })
  await attachment.add()
})

testPlugins(
  pluginsAs("interface"),
  "#36 %s: STATUS is code 51 when its IPAM plugin says that running containers suffer, which no plugin here says by itself",
  async (plugin) => {
    await using directory = await TemporaryDirectory.create()
    const daemon = directory.join("daemon")
    await Bun.write(daemon, `#!/bin/sh\necho '{"code":51,"msg":"the daemon does not renew leases"}'\nexit 1\n`)
    await chmod(daemon, 0o755)
    await using stage = await Stage.create(plugin)
    const { attachment } = await stage.attach({ keys: { ipam: { type: "daemon" } } })
    const status = attachment.run("STATUS", {}, { path: `${builtPlugins}:${directory.path}` })
    expect(await fail(status)).toMatchObject({ code: 51, msg: "the daemon does not renew leases" })
  },
)
