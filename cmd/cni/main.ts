import { version } from "../../package.json"
import { supportedVersions } from "../../pkg/types/mod.ts"
import type { Command } from "../../tools/command.ts"
import { schemaCommand } from "../../tools/configuration/mod.ts"
import { testCommand } from "../../tools/connectivity/mod.ts"
import { diffCommand } from "../../tools/diff/mod.ts"
import { doctor } from "../../tools/doctor/mod.ts"
import { dryRunCommand, INSIDE, runInside } from "../../tools/dry-run/mod.ts"
import type { Terminal } from "../../tools/environment.ts"
import { explainCommand } from "../../tools/explain/mod.ts"
import { log, metrics, recorderOff, recorderOn } from "../../tools/flight/mod.ts"
import { graph } from "../../tools/graph/mod.ts"
import { lintCommand } from "../../tools/lint/mod.ts"
import { ps } from "../../tools/ps.ts"
import { reconcile } from "../../tools/reconcile/mod.ts"
import { trace } from "../../tools/trace/mod.ts"
import { completionCommand, runTool, type Tool } from "../tool.ts"
import { add, check, del, status } from "./attach.ts"
import { dhcpList } from "./dhcp.ts"
import { gc } from "./gc.ts"
import { installCommand } from "./install.ts"
import { ipamList, ipamRelease } from "./ipam.ts"
import { migrate } from "./migrate.ts"
import { reattach } from "./reattach.ts"

const versionCommand: Command = {
  summary: "Print the version of this suite and of the protocol",
  words: [],
  flags: {},
  help: "",
  async run(_args, { stdout }) {
    stdout(`cni ${version}\nCNI protocol versions supported: ${supportedVersions.join(", ")}\n`)
  },
}

/** All commands of `cni` by name, in the order of the help. */
export const commands: Readonly<Record<string, Command>> = {
  add,
  check,
  del,
  status,
  reattach,
  reconcile,
  gc,
  ps,
  doctor,
  trace,
  test: testCommand,
  graph,
  log,
  metrics,
  "recorder on": recorderOn,
  "recorder off": recorderOff,
  "dhcp ls": dhcpList,
  "ipam ls": ipamList,
  "ipam release": ipamRelease,
  "dry-run": dryRunCommand,
  diff: diffCommand,
  explain: explainCommand,
  lint: lintCommand,
  schema: schemaCommand,
  install: installCommand,
  migrate,
  completion: completionCommand("cni"),
  version: versionCommand,
}

/** Summaries for groups of commands whose names have two words, by the first word. */
export const groups: Readonly<Record<string, string>> = {
  dhcp: "Show the leases of the dhcp daemon",
  recorder: "Switch the flight recorder on and off: one line for each call of a plugin",
  ipam: "Show the addresses that host-local assigned, and release them",
}

export const cniTool: Tool = {
  name: "cni",
  commands,
  groups,
  about:
    "Attaches containers to CNI networks by hand, inspects a node, checks configurations, cleans up, and installs the plugins",
  example: `Try it:
  ip netns add demo                  # a namespace that stands for the container
  cni add mynet demo                 # network "mynet" from /etc/cni/net.d
  ip netns exec demo ip address
  cni del mynet demo
  ip netns delete demo`,
}

/** Runs a command line of `cni`, and returns the exit code. Never throws. */
export async function cni(args: readonly string[], terminal: Terminal): Promise<number> {
  if (args[0] !== INSIDE) return runTool(cniTool, args, terminal)
  terminal.stdout(JSON.stringify(await runInside(terminal)))
  return 0
}
