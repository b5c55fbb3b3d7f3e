import { decodeResult, type JsonObject } from "../../pkg/types/mod.ts"
import { attachmentFlags, type Command, networkOf, print, runtimeOf, text, UsageError, word } from "../command.ts"
import { attachmentOf } from "../environment.ts"
import type { Screen } from "../screen.ts"
import { resultTable } from "../tables.ts"
import type { Made } from "./inside.ts"
import { dryRunAdd } from "./run.ts"

export const dryRunCommand: Command = {
  summary: "Show the changes that an ADD would make, without making them",
  words: ["ADD", "NETWORK"],
  choices: { ADD: ["ADD"] },
  flags: attachmentFlags,
  help: `Runs the real plugins in temporary namespaces: a network namespace with a copy of this host's bridges, addresses, routes and rules,
and dummy interfaces in place of its devices; and file systems that are read-only, except for a copy of host-local's store. It
prints their changes there: interfaces, addresses, routes, settings, files, and rules as nft prints them.

A real ADD may get another address, and other random names and MACs. It contacts no switches, DHCP servers or daemons. It needs root and
util-linux, and nft for the rules.

CNI_ARGS and CAP_ARGS are read as by "cni add". Exit code 0: ADD would succeed. 1: ADD would fail, and the message says why.

Examples:
  cni dry-run ADD mynet
  CAP_ARGS='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}' cni dry-run ADD mynet --json`,
  async run(args, terminal) {
    if (word(args, 0).toUpperCase() !== "ADD") throw new UsageError(`cannot try ${word(args, 0)}: expected ADD`)
    const runtime = runtimeOf(args, terminal)
    const network = networkOf(word(args, 1), args, terminal)
    const named = { containerId: text(args, "container-id") ?? "dry-run", ifName: text(args, "ifname") }
    const { netns: _, ...attachment } = attachmentOf(terminal.env, "/", named)
    const made = withoutPath(await dryRunAdd(runtime, network, attachment))
    print(args, terminal, { json: () => made, text: (screen) => asText(made, network.cniVersion, screen) })
  },
}

/** Returns the changes without the path of the namespace, which no longer exists. */
function withoutPath(made: Made): Made {
  const interfaces = (made.result.interfaces ?? []) as JsonObject[]
  const shown = interfaces.map((one) => (one.sandbox === undefined ? one : { ...one, sandbox: "container" }))
  return interfaces.length === 0 ? made : { ...made, result: { ...made.result, interfaces: shown } }
}

function asText({ result, host, container, sysctls, files, rules }: Made, version: string, screen: Screen): string {
  const list = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [`${title}\n${lines.map((line) => `  + ${line}\n`).join("")}`]
  const stateOf = ({ links, addresses, routes }: Made["host"]) => [
    ...links.map((line) => `link ${line}`),
    ...addresses.map((line) => `address ${line}`),
    ...routes.map((line) => `route ${line}`),
  ]
  const settings = Object.entries(sysctls).map(([key, { was, is }]) => `${key} = ${is}, was ${was}`)
  return [
    resultTable(decodeResult(result, version), screen),
    ...list("On the host", [...stateOf(host), ...settings]),
    ...list("In the container", stateOf(container)),
    ...list("Files", files),
    ...(rules === undefined ? ["Cannot show rules: the program nft is missing\n"] : []),
    ...(rules ? [`Rules\n${rules.replace(/^(?=.)/gm, "  ")}`] : []),
    "Nothing was changed\n",
  ].join("\n")
}
