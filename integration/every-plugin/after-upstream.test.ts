import { expect } from "bun:test"
import {
  type Attached,
  Attachment,
  type AttachOptions,
  expectUnchanged,
  isAllocationTrace,
  linkNames,
  pluginsAs,
  Stage,
  succeed,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"

/** The directory of Debian's Go plugins, 1.1.1. */
const theirs = "/usr/lib/cni"

/**
 * The commands that create an interface without an alias, as later Go plugins do, for link types that Debian's package
 * lacks.
 */
const byHand: Readonly<Record<string, string>> = {
  dummy: "link add eth0 up type dummy",
  tap: "tuntap add name eth0 mode tap multi_queue",
}

/** Runs ADD of the Go plugin, and returns the attachment. */
async function addAsUpstream(stage: Stage, options: AttachOptions = {}): Promise<Attached> {
  const attached = await stage.attach({ cniVersion: "1.0.0", ...options })
  const { pod, attachment } = attached
  const command = byHand[stage.plugin]
  const bin = `${theirs}/${command === undefined ? stage.plugin : "host-local"}`
  if (command !== undefined) await pod.exec("ip", command.split(" "))
  await succeed(new Attachment(stage.host, pod, attachment.config, { bin, path: theirs }).run("ADD"))
  return attached
}

testPlugins(
  pluginsAs("interface"),
  "#22 %s: DEL takes back what the Go plugin of that name has added",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const first = await addAsUpstream(stage)
    await first.attachment.del()
    const before = await takeSnapshot(stage.host)
    const inside = await takeSnapshot(first.pod)
    const { attachment, pod } = await addAsUpstream(stage, { pod: first.pod })
    expect(await linkNames(pod)).toEqual(["lo", "eth0"])
    for (const _ of ["once", "twice"]) {
      await attachment.del()
      expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
      expectUnchanged(inside, await takeSnapshot(pod))
    }
  },
  { forEachKind: true },
)
