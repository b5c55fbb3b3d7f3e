import { expect } from "bun:test"
import {
  type Attached,
  type Change,
  casesOf,
  expectUnchanged,
  isAllocationTrace,
  isLeftToKernel,
  type PluginCall,
  pluginsAs,
  Stage,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"
import { isLocalnetGuard } from "../portmap/portmap-lab.ts"

/** Prepares a used host and an attachment. Returns the state of the host and the container before ADD. */
async function attached(plugin: string) {
  const stage = await Stage.create(plugin)
  await stage.settle()
  const one = await stage.attach()
  // Once `lo` was up, it keeps 127.0.0.1 when it goes down.
  if (stage.role === "loopback")
    for (const state of ["up", "down"]) await one.pod.exec("ip", ["link", "set", "lo", state])
  return { stage, one, before: await takeSnapshot(stage.host), inside: await takeSnapshot(one.pod) }
}

testPlugins(
  pluginsAs(),
  "#22 %s: DEL takes back what ADD made, and succeeds as often as it is called",
  async (plugin) => {
    const { stage, one, before, inside } = await attached(plugin)
    await using _ = stage
    await one.attachment.add()
    for (const _again of [1, 2, 3]) {
      expect(await one.attachment.run("DEL")).toMatchObject({ exitCode: 0, stdout: "" })
      expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
      expectUnchanged(inside, await takeSnapshot(one.pod))
    }
  },
  { forEachKind: true },
)

testPlugins(pluginsAs(), "#22 %s: DEL of what was never added succeeds and changes nothing", async (plugin) => {
  const { stage, one, before, inside } = await attached(plugin)
  await using _ = stage
  expect(await one.attachment.run("DEL")).toMatchObject({ exitCode: 0, stdout: "" })
  expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
  expectUnchanged(inside, await takeSnapshot(one.pod))
})

/** Objects or inputs that may be missing when DEL runs. */
const losses: {
  number: string
  what: string
  forEachKind?: boolean
  lose?: (stage: Stage, one: Attached) => Promise<unknown>
  /** Reports whether DEL deletes an object that existed before ADD, or cannot restore it. */
  takes?: (change: Change, stage: Stage) => boolean
  keys?: object
  call?: Partial<PluginCall>
}[] = [
  {
    number: "#23",
    what: "the interface is gone",
    async lose(stage, one) {
      const name = stage.interfaceOf(one)
      if (name === "lo")
        await one.pod.exec("ip", ["link", "set", "lo", "down"]) // `lo` cannot be deleted
      else if (name !== undefined) await one.pod.exec("ip", ["link", "del", name])
    },
    takes: isOutOfReach,
  },
  {
    number: "#23",
    what: "the namespace is gone",
    lose: ({ host }, { pod }) => host.removeContainer(pod),
    takes: isOutOfReach,
  },
  { number: "#23", what: "all files are gone", lose: loseFiles, takes: isFile },
  // Only the rule set records that portmap enabled route_localnet. Without that record the setting stays, and DEL adds
  // its guard again.
  { number: "#23", what: "all rules are gone", lose: loseRules, takes: isLocalnet },
  {
    number: "#23",
    what: "all files and all rules are gone",
    async lose(stage) {
      await loseFiles(stage)
      await loseRules(stage)
    },
    takes: (change, stage) => isFile(change, stage) || isLocalnet(change),
  },
  {
    number: "#24",
    what: "it is not told the namespace",
    forEachKind: true,
    call: { netns: "" },
    takes: isOutOfReach,
  },
  { number: "#25", what: "it is not told prevResult", keys: { prevResult: undefined } },
  { number: "#25", what: "it is not told what the runtime told ADD", keys: { runtimeConfig: undefined } },
  {
    number: "#23, #24, #25",
    forEachKind: true,
    what: "the namespace is gone and it is told neither that nor prevResult",
    lose: ({ host }, { pod }) => host.removeContainer(pod),
    takes: isOutOfReach,
    keys: { prevResult: undefined },
    call: { netns: "" },
  },
]

function loseFiles({ host }: Stage): Promise<unknown> {
  return host.exec("find", ["/var/lib/cni", "/run/cni", "-mindepth", "1", "-delete"])
}

function loseRules({ host }: Stage): Promise<unknown> {
  return host.exec("nft", ["flush", "ruleset"])
}

/** Reports whether the kernel deletes this object, which takes some time. */
function isOutOfReach(change: Change, { plugin }: Stage): boolean {
  return isLeftToKernel(plugin, change)
}

/** Reports whether a change is a deleted file, or a virtual device, which the plugin recognizes only by its record. */
function isFile(change: Change, { plugin, role }: Stage): boolean {
  const { section, sign } = change
  const isDevice = role === "device" && isLeftToKernel(plugin, change)
  return isDevice || (/^\/(var\/lib|run)\/cni/.test(section) && sign === "-")
}

/**
 * Reports whether a change is `route_localnet`, which portmap no longer recognizes as its own, or the guard of that
 * setting.
 */
function isLocalnet(change: Change): boolean {
  return change.line.includes("br-lab/route_localnet") || isLocalnetGuard(change)
}

testPlugins(
  casesOf(pluginsAs(), losses),
  "$number $plugin: DEL succeeds, and frees the rest, when $what",
  async (loss) => {
    const { plugin, lose, takes = () => false, keys, call } = loss
    const { stage, one, before } = await attached(plugin)
    await using _ = stage
    const { exitCode, json } = await one.attachment.run("ADD")
    expect(exitCode).toBe(0)
    // The losses may include the interface that bridge created for a chained plugin.
    const port = one.maker ? portOf(one.attachment.config.prevResult) : undefined
    await lose?.(stage, one)
    const deleted = await one.attachment.run("DEL", { prevResult: json, ...keys }, call)
    expect(deleted).toMatchObject({ exitCode: 0, stdout: "" })
    const isMakers = ({ line }: Change) => port !== undefined && line.includes(port)
    const isAllowed = (change: Change) => isAllocationTrace(change) || isMakers(change) || takes(change, stage)
    expectUnchanged(before, await takeSnapshot(stage.host), isAllowed)
  },
)

/** Returns the host's end of bridge's veth pair. */
function portOf(prevResult: unknown): string | undefined {
  return (prevResult as { interfaces: { name: string }[] }).interfaces[1]?.name
}
