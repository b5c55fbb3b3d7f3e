import { ownerComment, printJson } from "../../../pkg/types/mod.ts"
import type { Terminal } from "../../environment.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  nodeFlags,
  placesOf,
  runtimeFlags,
  runtimeOf,
  text,
  wantsJson,
  word,
} from "../command.ts"
import { writeBundle } from "./bundle.ts"
import { type Examination, examine } from "./examine.ts"
import { carryOut, type Deletion, planDeletion } from "./fix.ts"
import { asJson, report } from "./report.ts"

/** `cni doctor` */
export const doctor: Command = {
  summary: "Look for what is wrong with this node's networks, with a reason and a remedy for each",
  words: ["[NETWORK]"],
  flags: {
    fix: { type: "boolean", help: "delete what containers that are provably gone left behind, after showing it" },
    bundle: { type: "string", value: "FILE", help: "write a tar for a maintainer, secrets taken out" },
    timeout: runtimeFlags.timeout,
    ...nodeFlags,
  },
  help: `Looks at kernel settings, the packet filter, links, routes, configurations, plugin files, pools, leases, disk and clock,
and asks the plugins of every network for their STATUS. It only looks, unless --fix is given. docs/doctor.md explains every finding.

--fix runs the plugins' DEL for attachments that no link leads to and whose namespace is gone, and for nothing else.

Exit code 0: no errors, perhaps warnings. 3: errors were found. 1: it could not look, or a fix failed.

Examples:
  cni doctor
  cni doctor pods --json
  cni doctor --fix
  cni doctor --bundle /tmp/node.tar`,
  async run(args, terminal) {
    const network = args.words.length > 0 ? word(args, 0) : undefined
    const places = placesOf(args, terminal)
    const runtime = runtimeOf(args, terminal)
    const examination = await examine(places, runtime, network)
    const bundle = text(args, "bundle")
    if (bundle !== undefined) {
      await writeBundle(bundle, examination)
      terminal.stderr(`Wrote ${bundle}\n`)
    }
    const deletions = given(args, "fix") ? planDeletions(examination) : []
    if (wantsJson(args, terminal)) terminal.stdout(`${printJson(asJson(examination, deletions))}\n`)
    else terminal.stdout(report(examination, deletions, terminal))
    await fix(deletions, args, terminal)
    const fixed = new Set(deletions.map(({ orphan }) => orphan))
    const left = examination.findings.filter(({ orphan }) => orphan === undefined || !fixed.has(orphan))
    if (left.some(({ severity }) => severity === "error")) throw new Found(FOUND_FAULTS)
  },
}

function planDeletions({ findings, patient }: Examination): Deletion[] {
  const orphans = new Set(findings.flatMap(({ orphan }) => orphan ?? []))
  return [...orphans].map((orphan) => planDeletion(orphan, patient))
}

async function fix(deletions: readonly Deletion[], args: Arguments, terminal: Terminal): Promise<void> {
  const failures: string[] = []
  for (const deletion of deletions) {
    try {
      await carryOut(deletion, runtimeOf(args, terminal))
    } catch (error) {
      failures.push(
        `Cannot delete "${ownerComment(deletion.orphan)}": ${error instanceof Error ? error.message : String(error)}`,
      )
    }
  }
  if (failures.length > 0) throw new Error(failures.join("\n"))
}
