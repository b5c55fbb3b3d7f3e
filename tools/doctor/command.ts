import type { Runtime } from "../../pkg/libcni/mod.ts"
import { messageOf } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  nodeFlags,
  placesOf,
  print,
  runtimeFlags,
  runtimeOf,
  screenOf,
  text,
  wantsJson,
  watchFlags,
  word,
} from "../command.ts"
import { networksOf, requireNetwork } from "../known-networks.ts"
import { writeBundle } from "./bundle.ts"
import { type Examination, examine } from "./examine.ts"
import { nameOf } from "./finding.ts"
import { carryOut, type Deletion, planDeletion, remainsOf } from "./fix.ts"
import { asJson, report, summary } from "./report.ts"

export const doctor: Command = {
  summary: "Find faults in this node's networks, with a reason and a remedy for each",
  words: ["[NETWORK]"],
  needsRoot: true,
  flags: {
    all: { type: "boolean", help: "list all objects of a finding, not just three" },
    fix: { type: "boolean", help: "print the leftovers of deleted containers, then delete them" },
    bundle: { type: "string", value: "FILE", help: "write a tar archive for a bug report, without secrets" },
    timeout: runtimeFlags.timeout,
    ...watchFlags,
    ...nodeFlags,
  },
  help: `Checks kernel settings, the packet filter, links, routes, configurations, plugin files, pools, leases, disk and clock,
and runs STATUS of the plugins of every network. Nothing is changed without --fix. "cni explain NAME" explains a finding.
Objects with the same fault and the same cause are one finding; a remedy that is a command can be pasted into a shell.

--fix runs the plugins' DEL for attachments that have neither a link nor a namespace, and deletes their rules,
also those of the Go suite. It changes nothing else. Then it checks again: the last line counts the remaining findings.

Exit code 0: no errors, perhaps warnings. 3: errors were found. 1: the checks could not run, or a fix failed.

Examples:
  cni doctor
  cni doctor pods --json
  cni doctor --fix
  cni doctor --bundle /tmp/node.tar`,
  async run(args, terminal) {
    const network = args.words.length > 0 ? word(args, 0) : undefined
    const places = placesOf(args, terminal)
    const runtime = runtimeOf(args, terminal)
    const question = { network, flags: placeFlags(args) }
    const examination = await examine(places, runtime, question)
    const { node, attachments } = examination.input
    requireNetwork(network, networksOf(node, attachments, network))
    const bundle = text(args, "bundle")
    if (bundle !== undefined) {
      await writeBundle(bundle, examination)
      terminal.stderr(`Wrote ${bundle}\n`)
    }
    const deletions = given(args, "fix") ? planDeletions(examination) : []
    const isJson = wantsJson(args)
    const screen = screenOf(args, terminal)
    if (!isJson) terminal.stdout(report(examination, deletions, screen, given(args, "all")))
    const reasons = await fix(deletions, runtime)
    const left = deletions.length > 0 ? await examine(places, runtime, question) : examination
    const failures = deletions.flatMap((deletion) => {
      const reason = reasons.get(deletion)
      const remains = reason === undefined ? remainsOf(deletion, left.input.node) : [reason]
      return remains.map((each) => `Cannot delete leftovers of ${nameOf(deletion.orphan)}: ${each}`)
    })
    print(args, terminal, {
      json: () => asJson(examination, deletions, failures),
      text: () => summary(left, screen, deletions.length),
    })
    for (const failure of failures) terminal.stderr(`cni doctor: ${failure}\n`)
    if (failures.length > 0) throw new Found(FIX_FAILED)
    if (left.findings.some(({ severity }) => severity === "error")) throw new Found(FOUND_FAULTS)
  },
}

function placeFlags(args: Arguments): string[] {
  return (["conf-dir", "bin-dir", "cache-dir"] as const).flatMap((flag) => {
    const value = text(args, flag)
    return value === undefined ? [] : [`--${flag}`, value]
  })
}

const FIX_FAILED = 1

function planDeletions({ findings, input }: Examination): Deletion[] {
  const fixable = findings.filter(({ isFixable }) => isFixable)
  const orphans = new Set(
    fixable.flatMap(({ affected = [] }) => affected.flatMap(({ attachment }) => attachment ?? [])),
  )
  return [...orphans].map((orphan) => planDeletion(orphan, input))
}

/** Carries out all deletions. Returns the error messages of those that failed. */
async function fix(deletions: readonly Deletion[], runtime: Runtime): Promise<Map<Deletion, string>> {
  const failures = new Map<Deletion, string>()
  for (const deletion of deletions) {
    try {
      await carryOut(deletion, runtime)
    } catch (error) {
      failures.set(deletion, messageOf(error))
    }
  }
  return failures
}
