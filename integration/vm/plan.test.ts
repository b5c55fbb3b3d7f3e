import { expect, test } from "bun:test"
import { featureFiles, planJobs } from "./plan.ts"

const stock = { files: ["a.test.ts"], shows: ["vlan"], lacks: ["no_nf_tables"], patience: 20 } as const
const other = { files: [], shows: ["no_nf_tables"], lacks: ["nf_tables"], patience: 10 } as const
const files = new Map([
  ["a.test.ts", 'testWith(["vlan"], …'],
  ["b.test.ts", 'test("a test for every kernel"'],
  ["c.test.ts", 'testWith(["vrf"], … testWith(["no_nf_tables"], …'],
])

test("a kernel runs its own files whole, and of all others the tests that need what it shows", () => {
  expect(planJobs([stock], files, []).map(({ job }) => job)).toEqual([
    {
      patience: 20,
      runs: [
        { title: "a.test.ts", files: ["./integration/a.test.ts"] },
        {
          title: "tests that need one of: vlan",
          files: ["./integration/c.test.ts"],
          pattern: "\\(needs (\\w+, )*(vlan)(, \\w+)*\\)$",
        },
      ],
    },
  ])
})

test("of some plugins alone, where a kernel is there for these", () => {
  const [{ job } = { job: { runs: [] } }] = planJobs([{ ...stock, files: [], only: ["bridge", "vrf"] }], files, [])
  expect(job.runs.map(({ pattern }) => pattern)).toEqual(["^(bridge|vrf): .*\\(needs (\\w+, )*(vlan)(, \\w+)*\\)$"])
})

test("what is missing outside is shown by the first kernel that has it, unless one shows it anyway", () => {
  const titles = (missing: Parameters<typeof planJobs>[2]) =>
    planJobs([other, stock], files, missing).map(({ job }) =>
      job.runs.at(-1)?.title.replace("tests that need one of: ", ""),
    )
  expect(titles([])).toEqual(["no_nf_tables", "vlan"])
  expect(titles(["vlan", "vrf"])).toEqual(["no_nf_tables, vrf", "vlan"])
  expect(titles(["nf_tables"])).toEqual(["no_nf_tables", "vlan, nf_tables"])
})

test("a test that needs what a kernel shows with what it lacks is for the first kernel that has both", () => {
  const bridges = new Map([["v.test.ts", 'testWith(["vlan_filtering", "nf_tables"], …']])
  const kernels = [
    { ...stock, files: [], shows: ["selinux"], lacks: [] },
    { ...other, shows: ["vlan_filtering"], lacks: ["nf_tables"] },
  ] as const
  const [first, second] = planJobs(kernels, bridges, []).map(({ job }) => job.runs[0])
  const runs = (run: typeof first, title: string) => new RegExp(run?.pattern ?? "(?!)").test(title)
  expect(first?.files).toEqual(["./integration/v.test.ts"])
  expect(runs(first, "a bridge (needs vlan_filtering, nf_tables)")).toBe(true)
  expect(runs(first, "a bridge (needs vlan_filtering, nf_tables_bridge)")).toBe(false)
  expect(runs(first, "a bridge (needs vlan_filtering)")).toBe(false)
  expect(runs(second, "a bridge (needs vlan_filtering)")).toBe(true)
})

test("a file that no longer exists is an error, not one file less", () => {
  expect(() => planJobs([{ ...stock, files: ["x.test.ts"] }], files, [])).toThrow("Cannot find integration/x.test.ts")
})

test("tests of every plugin are for a kernel that shows what a plugin needs, and for no other", () => {
  const every = new Map([
    ...files,
    ["d.test.ts", "testPlugins(pluginsAs(), …"],
    ["e.test.ts", "testWhereItRuns(plugin, …"],
  ])
  expect(featureFiles(every, ["vlan"], ["vlan"])).toEqual(["a.test.ts", "c.test.ts", "d.test.ts", "e.test.ts"])
  expect(featureFiles(every, ["vrf"], ["vlan"])).toEqual(["c.test.ts"])
})

test("files that run once more after a reboot come last, as far as they are among those that may run", () => {
  const rebooted = { ...stock, rebooted: ["b.test.ts", "x.test.ts"] }
  const [{ job } = { job: { runs: [] } }] = planJobs([rebooted], files, [])
  expect(job.runs.slice(2)).toEqual([
    { title: "b.test.ts, after a reboot", files: ["./integration/b.test.ts"], isAfterReboot: true },
  ])
  expect(planJobs([stock], files, [])[0]?.job.runs).toHaveLength(2)
})
