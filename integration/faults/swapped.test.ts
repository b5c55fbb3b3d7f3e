import { expect } from "bun:test"
import {
  type Attached,
  Attachment,
  bridgeNetwork,
  Chance,
  type ContainerNamespace,
  casesOf,
  expectUnchanged,
  extent,
  isAllocationTrace,
  isLong,
  mustRun,
  type PluginOutput,
  type PluginResult,
  pluginsAs,
  runProgram,
  Stage,
  seed,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  tellFigure,
  testPlugins,
} from "../lab/mod.ts"
import { between, expectClean, useBetween } from "./between.ts"

useBetween()

/** The ways to change the path of the container's namespace between two random system calls of the plugin. */
const ways = ["links", "mounts", "process"] as const

/** Two containers, and one path that leads to either of them. */
class Crossing {
  readonly #stage: Stage
  readonly #directory: TemporaryDirectory
  readonly pods: readonly [ContainerNamespace, ContainerNamespace]
  readonly #way: (typeof ways)[number]

  constructor(stage: Stage, directory: TemporaryDirectory, pods: Crossing["pods"], way: (typeof ways)[number]) {
    this.#stage = stage
    this.#directory = directory
    this.pods = pods
    this.#way = way
  }

  /** Creates the path so that it leads to the first container. */
  async prepare(): Promise<void> {
    const [path, other] = [this.#directory.join("path"), this.#directory.join("other")]
    const [first, second] = this.pods
    const commands = {
      links: `ln -s ${first.path} ${path} && ln -s ${second.path} ${other}`,
      mounts: `touch ${path} && mount --bind ${first.path} ${path}`,
      process: "true",
    }
    await this.#stage.host.exec("sh", ["-c", commands[this.#way]])
  }

  /** Runs a verb while the path changes. */
  run({ attachment }: Attached, verb: "ADD" | "CHECK" | "DEL", keys: object, chance: number): Promise<PluginOutput> {
    const [path, other] = [this.#directory.join("path"), this.#directory.join("other")]
    const [first, second] = this.pods
    const words = {
      links: [path, other],
      mounts: [path, first.path, second.path],
      process: [first.path, second.path],
    }
    return attachment.run(verb, keys, { netns: path, under: between(chance, this.#way, ...words[this.#way]) })
  }

  /** Returns the links, addresses, routes and rules of both containers, as `ip` prints them. */
  async look(): Promise<readonly [string, string]> {
    const look = async ({ name }: ContainerNamespace) => {
      const input = "addr show\nroute show table all\nrule show\n"
      const { stdout } = await runProgram(["ip", "-n", name, "-batch", "-"], { input })
      return stdout.replace(/ tentative\b| (linkdown|NO-CARRIER,?)|valid_lft \S+|state \w+|LOWER_UP/g, "")
    }
    return [await look(this.pods[0]), await look(this.pods[1])]
  }
}

/** Resets the settings of tuning, which DEL could not undo because the path led to the other container. */
async function untune(pod: ContainerNamespace): Promise<void> {
  const reset = "ip link set eth0 txqueuelen 1000; sysctl -q net.ipv4.conf.eth0.arp_filter=0"
  await pod.exec("sh", ["-c", reset])
}

const swapped = [
  ...pluginsAs("interface", "delegating", "device", "loopback"),
  ...pluginsAs("chained").filter((plugin) => plugin !== "portmap"),
]

/** The number of rounds of ADD, CHECK and DEL. */
const rounds = extent(50, 3400)

testPlugins(
  casesOf(
    swapped,
    ways.map((way) => ({ way })),
  ).filter(({ plugin, way }) => isLong || swapped.indexOf(plugin) % 3 === ways.indexOf(way)),
  "$plugin: a path that changes by $way while it works leads ADD, CHECK and DEL into one namespace or the other, wholly [S72]",
  async ({ plugin, way }) => {
    await using stage = await Stage.create(plugin)
    await using directory = await TemporaryDirectory.create()
    const { host } = stage
    await stage.settle()
    const attached = await stage.attach()
    const second = await host.addContainer()
    // A chained plugin changes an existing interface, so the second container gets one with the same name.
    if (attached.maker) await new Attachment(host, second, bridgeNetwork({ bridge: "br-lab", name: "other" })).add()
    const crossing = new Crossing(stage, directory, [attached.pod, second], way)
    await crossing.prepare()
    for (const { name } of stage.role === "loopback" ? crossing.pods : []) {
      for (const state of ["up", "down"]) await mustRun(["ip", "-n", name, "link", "set", "lo", state]) // `lo` keeps 127.0.0.1
    }
    const before = [await takeSnapshot(host), await takeSnapshot(attached.pod), await takeSnapshot(second)] as const
    const idle = await crossing.look()
    const chance = new Chance(seed + swapped.indexOf(plugin) * 3 + ways.indexOf(way))
    let tried = 0
    const tries = Math.ceil(rounds / swapped.length / (isLong ? ways.length : 1))
    for (let round = 0; round < tries; round++) {
      const added = await crossing.run(attached, "ADD", {}, chance.below(1 << 30))
      await expectClean(added)
      tried += added.exitCode === 0 ? 3 : 2
      const changed = (await crossing.look()).map((text, at) => text !== idle[at])
      const isInterface = stage.role !== "chained"
      if (added.exitCode !== 0) expect(changed).toEqual([false, false])
      else if (isInterface) expect(changed.filter(Boolean)).toHaveLength(1)
      else expect(changed).not.toEqual([true, true])
      if (added.exitCode === 0) {
        const prevResult = added.json as PluginResult
        await expectClean(await crossing.run(attached, "CHECK", { prevResult }, chance.below(1 << 30)))
      }
      await expectClean(await crossing.run(attached, "DEL", {}, chance.below(1 << 30)))
      // Now the runtime calls DEL with the true path. Anything outside both containers is left to GC.
      for (const { path } of crossing.pods) await succeed(attached.attachment.run("DEL", {}, { netns: path }))
      if (plugin === "tuning") await untune(attached.pod)
      expect(await crossing.look()).toEqual(idle)
    }
    expectUnchanged(before[0], await takeSnapshot(host), isAllocationTrace)
    expectUnchanged(before[1], await takeSnapshot(attached.pod))
    expectUnchanged(before[2], await takeSnapshot(second))
    await tellFigure({
      what: `${plugin}: a path that changes by ${way} between system calls`,
      tried,
      held: tried,
    })
  },
)
