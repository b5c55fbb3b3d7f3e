import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import {
  Chance,
  CProgram,
  isLong,
  pluginRow,
  pluginsAs,
  readShare,
  seed,
  tellFigure,
  testWhereItRuns,
} from "../lab/mod.ts"
import { nameOf, type Point } from "./points.ts"
import { Refused } from "./refused.ts"
import type { Subject, Verb } from "./refused-scene.ts"

let faultAt: CProgram
beforeAll(async () => {
  faultAt = await CProgram.build(join(import.meta.dir, "fault-at.c"))
})
afterAll(() => faultAt[Symbol.asyncDispose]())

/** The plugins of the lab's table, some of them with further configurations. */
const subjects: Subject[] = [
  ...pluginsAs()
    .filter((plugin) => pluginRow(plugin).staged !== false)
    .map((plugin) => ({ plugin, title: plugin })),
  { plugin: "portmap", title: "portmap by iptables", keys: { backend: "iptables" } },
  { plugin: "firewall", title: "firewall by iptables", keys: { backend: "iptables" } },
  {
    plugin: "bridge",
    title: "bridge masquerading by iptables",
    keys: { ipMasqBackend: "iptables", macspoofchk: true },
  },
]

const verbs: Verb[] = ["ADD", "DEL", "CHECK", "GC", "STATUS"]

/**
 * The part of the points that the long form tries. A random number, which depends on the seed, assigns each point to a
 * part.
 */
const { from, to } = readShare()

function isBetween(share: number): boolean {
  return from <= share && share < to
}

/**
 * The number of points that `npm test` tries for each verb. It is small because most of these tests run in slow virtual
 * machines.
 */
const sample: Readonly<Record<Verb, number>> = { ADD: 8, DEL: 4, CHECK: 1, GC: 2, STATUS: 1 }
const sampleOfLike: typeof sample = { ADD: 2, DEL: 1, CHECK: 0, GC: 1, STATUS: 0 }
/**
 * The number of spare candidates for each point. Spares are necessary because a system call may not happen again, such
 * as a second poll(2) that happened only because the machine was busy.
 */
const spares = 10

for (const subject of subjects) {
  const title = `${subject.title}: for each refusal of the kernel, ADD leaves nothing when it fails, and DEL, CHECK, GC and STATUS tell the truth`
  testWhereItRuns(
    subject.plugin,
    title,
    async () => {
      const failures: string[] = []
      const quick = pluginRow(subject.plugin).like === undefined ? sample : sampleOfLike
      for (const verb of verbs.filter((one) => isLong || quick[one] > 0)) {
        await using refused = await Refused.create(subject, verb, faultAt)
        const points = await refused.points()
        expect(points.length).toBeGreaterThan(20)
        const chance = new Chance(seed + points.length)
        const some = isLong
          ? points.filter(() => isBetween(chance.below(1000) / 1000))
          : Array.from({ length: spares * quick[verb] }, () => chance.of(points))
        const { tried, failures: found } = await refused.try(some, isLong ? some.length : quick[verb])
        expect(tried).toBeGreaterThan(0)
        failures.push(...found)
        const what = `${verb} of ${subject.title}, an error at each call`
        await tellFigure({ what, tried, held: tried - found.length, note: `of ${points.length} points` })
      }
      expect(failures).toEqual([])
    },
    7_200_000,
  )
}

const byIptables = { backend: "iptables" }

/** Faults that once revealed a bug: the fault as an argument of `fault-at`, and the call. */
const mended: (Pick<Subject, "plugin" | "keys"> & { verb: Verb; what: string; fault: RegExp; call: RegExp })[] = [
  { plugin: "bridge", verb: "ADD", what: "a request whose answer is lost", fault: /^lose/, call: /^sendto/ },
  { plugin: "bridge", verb: "DEL", what: "a list of which a part is lost", fault: /^fail:45:\d+:12$/, call: /^recv/ },
  {
    plugin: "macvlan",
    verb: "ADD",
    what: "a link that is made and not found",
    fault: /^refuse:.*:12$/,
    call: /type 18 /,
  },
  {
    plugin: "macvlan",
    verb: "GC",
    what: "a reservation that may not be read",
    fault: /^fail:257:.*:13$/,
    call: /networks\/lab\/10/,
  },
  { plugin: "flannel", verb: "GC", what: "a part of an answer", fault: /^short:45:1\d$/, call: /^recvfrom/ },
  { plugin: "ptp", verb: "ADD", what: "lists that keep changing", fault: /^changing/, call: /^recv/ },
  { plugin: "tuning", verb: "DEL", what: "a value that cannot be set now", fault: /^refuse:.*:16$/, call: /type 16 / },
  { plugin: "sbr", verb: "DEL", what: "a route that cannot be put back now", fault: /^fail:.*:12$/, call: /type 24 / },
  {
    plugin: "sbr",
    verb: "ADD",
    what: "a route that was deleted, and said to be busy",
    fault: /^lie:.*:16$/,
    call: /type 25 /,
  },
  {
    plugin: "host-device",
    verb: "DEL",
    what: "a device that is not restored",
    fault: /^fail:.*:105$/,
    call: /type 16 /,
  },
  {
    plugin: "portmap",
    keys: byIptables,
    verb: "ADD",
    what: "a program that gets a part",
    fault: /^fail:.*:5$/,
    call: /^write .pipe/,
  },
  {
    plugin: "tuning",
    verb: "DEL",
    what: "a namespace that cannot be asked for its type",
    fault: /^fail:16:/,
    call: /^ioctl/,
  },
  {
    plugin: "tuning",
    verb: "ADD",
    what: "a setting that may be written and not be read",
    fault: /^fail:257:\d+:13$/,
    call: /^open .*arp_filter/,
  },
  {
    plugin: "bandwidth",
    verb: "GC",
    what: "filters that cannot be listed",
    fault: /^always:45:1[0-9]:/,
    call: /^recvfrom/,
  },
  { plugin: "static", verb: "STATUS", what: "a signal at the start", fault: /^fail:7:1:4$/, call: /^poll/ },
]

for (const { plugin, keys = {}, verb, what, fault, call } of mended) {
  testWhereItRuns(plugin, `${plugin}: ${verb} bears ${what}`, async () => {
    await using refused = await Refused.create({ plugin, title: plugin, keys }, verb, faultAt)
    const points = (await refused.points())
      .filter((point) => fault.test(point.fault) && call.test(nameOf(point.call)))
      .map((point): Point => ({ ...point, owed: "at once" }))
    expect(points.length).toBeGreaterThan(0)
    expect((await refused.try(points.slice(0, 12))).failures).toEqual([])
  })
}
