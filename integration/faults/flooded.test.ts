import { expect } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  type ContainerNamespace,
  expectUnchanged,
  extent,
  isAllocationTrace,
  isLong,
  type PluginOutput,
  type PluginResult,
  pluginsAs,
  Stage,
  startDaemon,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  tellFigure,
  testPlugin,
  waitFor,
} from "../lab/mod.ts"
import { expectClean } from "./between.ts"

/**
 * The number of veth pairs in a container. With so many links, a list of them does not fit into one message of the
 * kernel.
 */
const pairs = 60

/**
 * Makes a container change its links, addresses and routes without end, until its namespace is deleted. No dump is
 * consistent during this time, and listeners lose events.
 */
async function flood(pod: ContainerNamespace, directory: TemporaryDirectory): Promise<void> {
  const numbers = Array.from({ length: pairs }, (_, at) => at)
  const first = numbers.map((at) => `link add a${at} type veth peer name b${at}`)
  await pod.exec("ip", ["-batch", "-"], { input: first.join("\n") })
  const addresses = numbers.flatMap((at) => [
    `address add 192.0.2.${at}/32 dev a${at}`,
    `-6 address add 2001:db8::${at}/128 dev a${at} nodad`,
    `link set a${at} alias flood${at}`,
    `address delete 192.0.2.${at}/32 dev a${at}`,
    `-6 address delete 2001:db8::${at}/128 dev a${at}`,
  ])
  addresses.push("link add c0 type veth peer name d0", "link delete c0") // all other lines are fast; these two are slow
  const [lines, log] = [directory.join("lines"), directory.join("rounds")]
  await Bun.write(lines, addresses.join("\n"))
  const loop = `while :; do ip -force -batch ${lines} >/dev/null 2>&1; echo >> ${log}; done`
  await startDaemon(pod.commandLine(["sh", "-c", loop]))
  await waitFor(() => Bun.file(log).size > 0, "a first round of the flood")
}

const flooded = [...pluginsAs("interface", "delegating", "device"), ...pluginsAs("chained")]

for (const plugin of isLong ? flooded : ["bridge", "macvlan", "sbr"]) {
  testPlugin(
    plugin,
    `${plugin}: a container that floods netlink harms itself alone: each call on it is answered, and the neighbors' succeed`,
    async () => {
      await using stage = await Stage.create(plugin)
      await using directory = await TemporaryDirectory.create()
      const { host } = stage
      await stage.settle()
      const neighbour = await stage.attach()
      const before = await takeSnapshot(host)
      const wild = await stage.attach({ pod: await host.addContainer("wild") })
      const added = await wild.attachment.add()
      await flood(wild.pod, directory)
      let tried = 0
      const call = async (run: Promise<PluginOutput>) => {
        const output = await run
        await expectClean(output)
        tried++
        return output
      }
      for (let round = 0; round < extent(1, 8); round++) {
        const result = (await succeed(call(neighbour.attachment.run("ADD")))).json as PluginResult
        await succeed(call(neighbour.attachment.check(result)))
        await succeed(call(neighbour.attachment.run("DEL")))
        await call(wild.attachment.check(added))
        await succeed(call(wild.attachment.run("DEL")))
        await call(wild.attachment.run("ADD"))
        // GC of an attachment that does not exist, in a host that has the flooded container too
        const valid = [{ containerID: wild.pod.name, ifname: "eth0" }]
        const stale = await stage.attach()
        await stale.attachment.add()
        await call(stale.attachment.run("GC", { "cni.dev/valid-attachments": valid }))
        await stale.maker?.del()
        await stale.attachment.del()
      }
      await wild.maker?.del()
      await wild.attachment.del()
      await host.removeContainer(wild.pod)
      await wild.attachment.del()
      const isDevice = ({ line }: { line: string }) => /\b(dev|far)80\d\d\b/.test(line)
      expectUnchanged(before, await takeSnapshot(host), (change) => isAllocationTrace(change) || isDevice(change))
      await tellFigure({ what: `${plugin}: beside and in a container that floods netlink`, tried, held: tried })
    },
  )
}

testPlugin(
  "bridge",
  "bridge: duplicate address detection in a flood is decided, or given up at its deadline",
  async () => {
    await using stage = await Stage.create("bridge")
    await using directory = await TemporaryDirectory.create()
    const { host } = stage
    const pod = await host.addContainer("wild")
    await flood(pod, directory)
    const ipam = { type: "host-local", ranges: [[{ subnet: "fd00:22::/64" }]] }
    const attachment = new Attachment(host, pod, bridgeNetwork({ enabledad: true, ipam }))
    const output = await attachment.run("ADD")
    await expectClean(output)
    if (output.exitCode !== 0) expect(output.json).toMatchObject({ code: 11 })
    await attachment.del()
  },
)
