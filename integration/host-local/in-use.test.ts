import { expect, test } from "bun:test"
import {
  Attachment,
  expectUnchanged,
  fail,
  HostNamespace,
  newest,
  pluginRow,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"

/**
 * Creates a plugin's network and two namespaces for one container ID: the container was restarted, and its old
 * namespace still exists.
 */
async function twoNamespaces(plugin: string) {
  const host = await HostNamespace.create()
  const { keys, setUp } = pluginRow(plugin)
  await setUp?.(host)
  const [pod, again] = [await host.addContainer(), await host.addContainer("again")]
  const config = { cniVersion: newest, name: "lab", type: plugin, ...keys({ network: "lab", port: 8080 }) }
  const attachment = new Attachment(host, pod, config)
  return { host, attachment, other: new Attachment(host, again, config, { containerId: pod.name }) }
}

test.each(["bridge", "ptp", "tap", "flannel"])(
  "an ADD that is refused for a container that is attached elsewhere takes nothing from it (%s)",
  async (plugin) => {
    const { host, attachment, other } = await twoNamespaces(plugin)
    await using _host = host
    const prevResult = await attachment.add()
    const before = await takeSnapshot(host)
    expect((await fail(other.run("ADD"))).msg).toContain("duplicate allocation is not allowed")
    expectUnchanged(before, await takeSnapshot(host))
    await succeed(attachment.check(prevResult))
    await attachment.del()
  },
)

test("of two ADDs of one attachment at the same time one succeeds, and its address stays reserved", async () => {
  const { host, attachment } = await twoNamespaces("bridge")
  await using _host = host
  for (let round = 0; round < 10; round++) {
    const outputs = await Promise.all([attachment.run("ADD"), attachment.run("ADD")])
    const answered = outputs.filter(({ exitCode }) => exitCode === 0)
    expect(answered).toHaveLength(1)
    await succeed(attachment.check(answered[0]?.json as object))
    await attachment.del()
  }
})
