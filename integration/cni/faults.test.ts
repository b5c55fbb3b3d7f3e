import { expect, test } from "bun:test"
import { join } from "node:path"
import { findingNames } from "../../tools/doctor/mod.ts"
import { isLong, seed, testWith, waitFor } from "../lab/mod.ts"
import { faultsOutside } from "./faults-outside.ts"
import { faultsOnPaths } from "./faults-paths.ts"
import { type Fault, faults as usual } from "./faults-table.ts"
import { faultsOfTraffic } from "./faults-traffic.ts"
import { type Finding, NodeLab } from "./node-lab.ts"

const faults = [...usual, ...faultsOnPaths, ...faultsOfTraffic, ...faultsOutside]

/** The features that some faults need. `npm run test:vm` reads their names in this file. */
const features = [
  "ifb",
  "nf_tables_bridge",
  "no_dummy",
  "tbf",
  "vlan_filtering",
] as const satisfies readonly Fault["needs"][]

/**
 * The faults that run: half of them in `npm test`, because each takes seconds, and all in `npm run test:faults -- cni`.
 */
const chosen = faults.filter((_, at) => isLong || at % 2 === seed % 2)

for (const fault of chosen) {
  const { rule, how, needs, words } = fault
  const title = `${rule}${how === undefined ? "" : `, ${how}`}: found, and gone after ${words ? "what its remedy says" : "its remedy was pasted"}`
  if (needs) testWith([needs], title, () => breakAndMend(fault))
  else test(title, () => breakAndMend(fault))
}

async function breakAndMend(fault: Fault): Promise<void> {
  const { rule, severity, names, words } = fault
  await using lab = await NodeLab.create()
  const pods = [await lab.addPod("web-1"), await lab.addPod("web-2")]
  expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
  await fault.seed(lab, pods)

  const { findings, exitCode } = await lab.doctor()
  const found = findings.filter((each) => each.rule === rule)
  expect(found).toMatchObject([{ rule, severity, what: expect.stringMatching(names), pasteable: words === undefined }])
  if (words) expect(found[0]?.remedy).toMatch(words)
  expect(found[0]?.why).not.toBe("")
  const besides: readonly string[] = [rule, ...(fault.besides ?? [])]
  expect(findings.map((each) => each.rule).filter((each) => !besides.includes(each))).toEqual([])
  expect(exitCode).toBe(findings.some((each) => each.severity === "error") ? 3 : 0)

  // If the main remedy is advice, repair the fault by hand first. Commands for its other findings may assume a
  // different cause.
  for (const { remedy } of words ? [] : findings.filter(isPasteable)) {
    const pasted = await lab.paste(remedy)
    expect({ remedy, ...pasted }).toMatchObject({ stderr: "", exitCode: 0 })
  }
  await fault.mend?.(lab, pods)
  expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
  const answers = async () => (await pods[1]?.tryExec("ping", ["-c1", "-W1", "10.85.0.1"]))?.exitCode === 0
  await waitFor(answers, "the gateway to answer the pod")
}

function isPasteable({ pasteable }: Finding): boolean {
  return pasteable
}

test("the features that faults need are named in this file", () => {
  const named: readonly (string | undefined)[] = features
  expect(faults.map(({ needs }) => needs).filter((needs) => needs !== undefined && !named.includes(needs))).toEqual([])
})

test("every finding that doctor can tell is broken here or among the faults of containers, or has a reason why it cannot be", async () => {
  const elsewhere = {
    "no-listener": "it needs firewalld on a bus: integration/reconcile/firewall.test.ts",
    "losses-left": "it needs the listener: integration/reconcile/listener.test.ts",
    "no-nftables": "it needs a kernel without nf_tables: tools/doctor/host.test.ts",
    "neighbours-full": "its limit is the whole machine's: tools/doctor/kernel.test.ts",
  }
  const rows = new Set([...faults.map(({ rule }) => rule), ...Object.keys(elsewhere)])
  const tables = ["doctor-containers.test.ts"].map((file) => Bun.file(join(import.meta.dir, file)).text())
  const insides = (await Promise.all(tables)).join()
  expect(findingNames.filter((name) => !rows.has(name) && !insides.includes(`"${name}"`))).toEqual([])
  const known: readonly string[] = findingNames
  expect([...rows].filter((rule) => !known.includes(rule))).toEqual([])
})
