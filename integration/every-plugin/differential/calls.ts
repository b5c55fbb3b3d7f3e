import fc from "fast-check"
import { pluginRow, pluginsAs } from "../../lab/mod.ts"
import { mutate, mutation, spoil } from "./changes.ts"
import { valid } from "./configurations.ts"
import type { DriverCall } from "./driver.ts"
import { addresses, type Json, place, versions, words } from "./values.ts"

const often = <T>(good: readonly T[], rare: fc.Arbitrary<T>, weight = 9) =>
  fc.oneof({ weight, arbitrary: fc.constantFrom(...good) }, { weight: 1, arbitrary: rare })
const text = fc
  .oneof(fc.constantFrom(...words, ...addresses), fc.string({ unit: "binary", maxLength: 9 }))
  .map((value) => value.replaceAll("\0", "").toWellFormed())

const environment = fc
  .record({
    CNI_COMMAND: often(["ADD", "ADD", "ADD", "DEL", "DEL", "CHECK", "CHECK", "STATUS", "GC", "VERSION"], text, 19),
    CNI_CONTAINERID: often(["c1", "c2", "c3"], text),
    CNI_NETNS: often(
      [...place.pods, "/run/cni/absent"],
      fc.oneof(text, fc.constantFrom("/proc/self/ns/net", "/etc/passwd", "/")),
      6,
    ),
    CNI_IFNAME: often(["eth0", "eth1"], text),
    CNI_ARGS: often(
      ["", "IgnoreUnknown=1;K8S_POD_NAME=a"],
      fc.oneof(
        text,
        fc.constantFrom("IP=10.30.0.40", "MAC=0a:00:00:00:00:11", "A=1;A=2", ";;", "=", "K=v", "IgnoreUnknown=maybe"),
        text.map((value) => `IgnoreUnknown=1;${value}`),
      ),
      4,
    ),
    CNI_PATH: often(
      [place.bin, place.bin, `/absent:${place.bin}`],
      fc.oneof(text, fc.constantFrom("relative", "", ":", "/absent")),
      12,
    ),
    CNI_NETNS_OVERRIDE: often(["", ""], fc.constantFrom("1", "true", "no")),
  })
  .chain((variables) => fc.subarray(Object.keys(variables), { minLength: 0 }).map((left) => ({ variables, left })))

const cloned = fc.option(
  fc.array(
    fc.record({
      containerID: fc.constantFrom("c1", "c2", "zz"),
      ifname: fc.constantFrom("eth0", "eth1"),
    }) as fc.Arbitrary<Json>,
    { maxLength: 3 },
  ),
  { nil: undefined },
)

/** A generator of random calls. */
const call: fc.Arbitrary<DriverCall> = fc
  .record({
    plugin: fc.constantFrom(...pluginsAs().filter((name) => pluginRow(name).staged !== false)),
    which: fc.nat(5),
    version: often([...versions, "1.0.0", "1.1.0", "1.1.0", "1.1.0"], fc.constantFrom("", "2.0.0", "1.1", "x"), 20),
    name: often(["lab", "other"], fc.constantFrom(...words)),
    attachments: cloned,
    mutations: fc.oneof(fc.constant([]), fc.array(mutation, { minLength: 1, maxLength: 3 })),
    spoiled: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: spoil }),
    environment,
    isWhole: fc.integer({ min: 0, max: 12 }),
  })
  .map(({ plugin, which, version, name, attachments, mutations, spoiled, environment, isWhole }) => {
    const own = valid[plugin] ?? [{}]
    const list = attachments === undefined ? {} : { "cni.dev/valid-attachments": attachments }
    const config = mutate({ cniVersion: version, name, type: plugin, ...own[which % own.length], ...list }, mutations)
    const json = JSON.stringify(config)
    const { variables, left } = environment
    const env = Object.fromEntries(Object.entries(variables).filter(([key]) => isWhole > 0 || left.includes(key)))
    const stdin = Buffer.from(spoiled ? spoiled(json) : json).toString("base64")
    return { plugin, env, stdin }
  })

/**
 * A generator of the calls for one attachment: an interface plugin and chained plugins, with CHECK, DEL and GC in
 * versions that have them.
 */
const story: fc.Arbitrary<DriverCall[]> = fc
  .record({
    maker: fc.constantFrom("bridge", "ptp", "macvlan", "tap"),
    which: fc.nat(5),
    version: fc.constantFrom("0.4.0", "1.0.0", "1.1.0"),
    container: fc.constantFrom("s1", "s2", "s3"),
    pod: fc.constantFrom(...place.pods),
    ifName: fc.constantFrom("net0", "net1"),
    chain: fc.shuffledSubarray(["tuning", "portmap"]),
    twice: fc.boolean(),
    reversed: fc.boolean(),
    keep: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ maker, which, version, container, pod, ifName, chain, twice, reversed, keep }) => {
    const calls: DriverCall[] = []
    const configOf = (plugin: string, index: number) => {
      const own = valid[plugin] ?? [{}]
      const { prevResult: _, ...keys } = own[(which + index) % own.length] ?? {}
      return { cniVersion: version, name: "story", type: plugin, ...keys }
    }
    const add = (verb: string, plugin: string, index: number, prevResultOf?: number, keys: object = {}) => {
      const env = {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: container,
        CNI_NETNS: pod,
        CNI_IFNAME: ifName,
        CNI_PATH: place.bin,
      }
      const stdin = Buffer.from(JSON.stringify({ ...configOf(plugin, index), ...keys })).toString("base64")
      calls.push({ plugin, env, stdin, ...(prevResultOf === undefined ? {} : { prevResultOf }) })
    }
    const chained = [maker, ...chain]
    for (const [index, plugin] of chained.entries()) add("ADD", plugin, index, index === 0 ? undefined : index - 1)
    const last = chained.length - 1
    for (const [index, plugin] of chained.entries()) add("CHECK", plugin, index, last)
    if (twice) add("ADD", maker, 0)
    if (keep === 0)
      for (const [index, plugin] of chained.entries())
        add("GC", plugin, index, undefined, { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] })
    if (keep === 1)
      for (const [index, plugin] of chained.entries()) add("STATUS", plugin, index, undefined, { cniVersion: "1.1.0" })
    const deleted = [...chained.entries()]
    for (const [index, plugin] of reversed ? deleted.reverse() : deleted) add("DEL", plugin, index, last)
    add("DEL", maker, 0)
    return calls
  })

/**
 * Returns random calls, which depend only on the seed: the calls of whole attachments, and single calls between them.
 */
export function generateCalls(seed: number, chance: number, stories: number): DriverCall[] {
  const drawn = fc.sample(story, { seed, numRuns: stories })
  const single = fc.sample(call, { seed: seed + 1, numRuns: chance })
  const calls: DriverCall[] = []
  const append = (story: readonly DriverCall[]) => {
    const base = calls.length
    for (const one of story)
      calls.push(one.prevResultOf === undefined ? one : { ...one, prevResultOf: one.prevResultOf + base })
  }
  for (const one of drawn.slice(0, 3)) append(one)
  const every = Math.max(1, Math.floor(single.length / Math.max(1, drawn.length - 3)))
  for (const [at, one] of single.entries()) {
    calls.push(one)
    const next = drawn[3 + Math.floor(at / every)]
    if (next && at % every === every - 1) append(next)
  }
  return calls
}
