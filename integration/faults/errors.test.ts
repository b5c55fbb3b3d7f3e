import { afterAll, beforeAll, expect } from "bun:test"
import { join } from "node:path"
import { Chance, CProgram, isLong, pluginRow, pluginsAs, seed, tellFigure, testWhereItRuns } from "../lab/mod.ts"
import { Refused, type Subject, type Verb } from "./refused.ts"

let faultAt: CProgram
beforeAll(async () => {
  faultAt = await CProgram.build(join(import.meta.dir, "fault-at.c"))
})
afterAll(() => faultAt[Symbol.asyncDispose]())

/** Each plugin as the table of the laboratory has it, and other ways that its work can be done. */
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

/** How much of the long form runs, chosen by the seed: `CNI_FAULTS_SHARE=0.3 npm run test:faults -- errors`. */
const share = Number(process.env.CNI_FAULTS_SHARE ?? 1)

/** How many points `npm test` tries of a verb. */
const sample: Readonly<Record<Verb, number>> = { ADD: 8, DEL: 4, CHECK: 2, GC: 2, STATUS: 2 }

for (const subject of subjects) {
  const title = `${subject.title}: whatever the kernel refuses, ADD leaves nothing when it fails, and DEL, CHECK, GC and STATUS tell the truth`
  testWhereItRuns(
    subject.plugin,
    title,
    async () => {
      const failures: string[] = []
      for (const verb of verbs) {
        await using refused = await Refused.create(subject, verb, faultAt)
        const points = await refused.points()
        expect(points.length).toBeGreaterThan(20)
        const chance = new Chance(seed + points.length)
        const some = isLong
          ? points.filter(() => chance.below(1000) < share * 1000)
          : Array.from({ length: sample[verb] }, () => chance.of(points))
        const { tried, failures: found } = await refused.try(some)
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
