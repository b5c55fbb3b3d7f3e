import { expect } from "bun:test"
import {
  Chance,
  type ContainerNamespace,
  casesOf,
  expectUnchanged,
  extent,
  isAllocationTrace,
  isLong,
  type PluginOutput,
  pluginsAs,
  Stage,
  seed,
  succeed,
  takeSnapshot,
  tellFigure,
  testPlugins,
  waitFor,
} from "../lab/mod.ts"
import { between, endedBefore, expectClean, useBetween } from "./between.ts"

useBetween()

/**
 * The commands with which a container changes its interface: arguments of `ip -n POD`, in which IF is the interface.
 */
const meddles: Readonly<Record<string, (other: ContainerNamespace) => string[]>> = {
  renames: () => ["link set IF down", "link set IF name gone0"],
  "takes down": () => ["link set IF down"],
  deletes: () => ["link delete IF"],
  moves: (other) => [`link set IF netns ${other.name}`],
  "re-addresses": () => ["address flush dev IF", "address add 10.22.0.99/24 dev IF"],
  "flushes the routes of": () => ["route flush table main", "route flush table 100"],
  "changes the MAC and the MTU of": () => ["link set IF down address 0a:00:00:00:00:77 mtu 1300"],
  "takes the name of": () => ["link set IF down", "link set IF name gone0", "link add IF type veth peer name far0"],
  "has an interface before us by the name of": () => ["link add IF type veth peer name far0"],
}

const verbs = ["ADD", "CHECK", "DEL"] as const

const meddled = [
  ...pluginsAs("interface", "delegating", "device"),
  ...pluginsAs("chained").filter((plugin) => plugin !== "portmap"),
]

/** Returns the host's number of links, number of rules, and paths of files of CNI, as text. */
async function look({ host }: Stage): Promise<string> {
  const files = "find /var/lib/cni /run/cni -type f | grep -v /.index/ | grep -v 'last_reserved_ip\\|/lock$' | sort"
  const links = "ip -o link | grep -v 'dev80\\|far80' | wc -l"
  const { stdout } = await host.exec("sh", ["-c", `${links}; nft list ruleset | grep -c comment; ${files}`])
  return stdout
}

/**
 * Runs one verb, and makes the container change its interface before the verb's n-th system call. Then deletes the
 * attachment. Reports whether the verb made that system call.
 */
async function meddleOnce(
  stage: Stage,
  verb: (typeof verbs)[number],
  { lines, nth, idle }: { lines: string[]; nth: number; idle: string },
): Promise<boolean> {
  const at = await stage.attach()
  const { attachment, pod, ifName } = at
  const command = lines.map((line) => `ip -n ${pod.name} ${line.replace("IF", ifName)}`).join("; ")
  const added = verb === "ADD" ? undefined : await attachment.add()
  const keys = added ? { prevResult: added } : {}
  const under = between(nth, "run", command)
  const output: PluginOutput = await attachment.run(verb, verb === "CHECK" ? keys : {}, { under })
  const ended = output.exitCode >= endedBefore && output.exitCode < 128
  await expectClean({ ...output, exitCode: ended ? output.exitCode - endedBefore : output.exitCode })
  if (verb === "DEL") expect(output).toMatchObject({ exitCode: ended ? endedBefore : 0 })
  await attachment.del()
  await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [] }))
  await at.maker?.del()
  await stage.host.removeContainer(pod)
  // If the container moved its interface to another namespace, the record about it stays until the kernel has deleted
  // the container's namespace, which takes some time.
  const isIdle = async () => {
    await succeed(attachment.run("GC", { "cni.dev/valid-attachments": [] }))
    return (await look(stage)) === idle
  }
  await waitFor(isIdle, "GC to leave nothing").catch(() => {}) // the caller compares and reports differences
  return !ended
}

/** The maximum number of attachments on one host, which has no devices for more. */
const triesOfStage = 8

/** The number of system calls between two tries. The seed determines the first try. */
const step = extent(60, 25)

testPlugins(
  casesOf(
    meddled,
    Object.keys(meddles).map((what) => ({ what })),
  ).filter(({ plugin, what }) => isLong || Object.keys(meddles).indexOf(what) === meddled.indexOf(plugin) % 9),
  "$plugin: a container that $what the interface between two system calls gets an answer, and nothing stays on the host",
  async ({ plugin, what }) => {
    const chance = new Chance(seed + meddled.indexOf(plugin))
    let tried = 0
    for (const verb of verbs) {
      let goOn = true
      for (let nth = 1 + chance.below(step); goOn; ) {
        await using stage = await Stage.create(plugin)
        await stage.settle()
        const other = await stage.host.addContainer()
        const before = await takeSnapshot(stage.host)
        const idle = await look(stage)
        for (let round = 0; goOn && round < triesOfStage; round++) {
          goOn = await meddleOnce(stage, verb, { lines: meddles[what]?.(other) ?? [], nth, idle })
          if (goOn) tried++
          const now = await look(stage)
          expect({ verb, nth, now }).toEqual({ verb, nth, now: idle })
          nth += step
        }
        const isDevice = ({ line }: { line: string }) => /\b(dev|far)80\d\d\b/.test(line)
        expectUnchanged(
          before,
          await takeSnapshot(stage.host),
          (change) => isAllocationTrace(change) || isDevice(change),
        )
        await stage.host.removeContainer(other)
      }
    }
    await tellFigure({
      what: `${plugin}: a container that ${what} the interface, at every ${step}th call`,
      tried,
      held: tried,
    })
  },
  { timeoutMs: extent(900_000, 7_200_000) },
)
