import { version } from "../../package.json"
import { type PluginRow, pluginNames, plugins as suite } from "../../suite/plugins.ts"
import type { Command } from "../../tools/command.ts"
import { plain } from "../../tools/configuration/mod.ts"
import { agentTool } from "../agent/main.ts"
import { cniTool } from "../cni/main.ts"
import type { Tool } from "../tool.ts"
import { fromMarkdown } from "./from-markdown.ts"
import { header, heading, literal, paragraph, term } from "./roff.ts"

const source = `cni-plugins ${version}`

/** Returns all manual pages by path below the manual directory, "man1/cni.1", created from the tables of the help. */
export function manualPages(): Record<string, string> {
  const plugins = suite.map((row) => [`man8/cni-${row.plugin.name}.8`, pluginPage(row)])
  return { ...toolPages(cniTool, cniText), ...toolPages(agentTool, agentText), ...Object.fromEntries(plugins) }
}

function toolPages(tool: Tool, text: ToolText): Record<string, string> {
  const commands = Object.entries(tool.commands).map(([name, command]) => {
    return [`man1/${pageOf(tool, name)}.1`, commandPage(tool, name, command)]
  })
  return { [`man1/${tool.name}.1`]: toolPage(tool, text), ...Object.fromEntries(commands) }
}

/** Returns the name of a command's page: "cni-ipam-ls" for "ipam ls". */
function pageOf(tool: Tool, command: string): string {
  return `${tool.name}-${command.replaceAll(" ", "-")}`
}

/** The text of a tool's page other than its commands. */
interface ToolText {
  readonly name: string
  readonly description: string
  readonly variables: readonly (readonly [string, string])[]
  readonly files: readonly (readonly [string, string])[]
  readonly seeAlso: readonly string[]
}

const exitCodes: readonly (readonly [string, string])[] = [
  ["0", "success, or no faults"],
  ["1", "failure; the message says why"],
  ["2", "the command line is wrong"],
  ["3", "the command found faults"],
]

const cniText: ToolText = {
  name: "attach containers to networks by hand, inspect a node, check configurations",
  description:
    "For people and scripts; plugins do not need it. It has no daemon: it reads the kernel, the runtime's records, host-local's store and the configurations. Every command has `--help`.",
  variables: [
    ["NETCONFPATH", "the directory of configurations, without `--conf-dir`"],
    ["CNI_PATH", "the directories of plugins, without `--bin-dir`"],
    ["CNI_IFNAME", "the interface in the container, without `--ifname`"],
    ["CNI_ARGS", "arguments for plugins: K=V;K=V"],
    ["CAP_ARGS", "a JSON object with a value for each capability"],
    ["NO_COLOR", "no colors, with any value"],
  ],
  files: [
    ["/etc/cni/net.d", "configurations of networks, *.conflist and *.conf; the first by name is for pods"],
    ["/opt/cni/bin", "the plugins"],
    ["/var/lib/cni/results", "the runtimes' records of ADD"],
    ["/var/lib/cni/networks", "host-local's reservations"],
  ],
  seeAlso: pluginNames.map((name) => `cni-${name}(8)`),
}

const agentText: ToolText = {
  name: "the agent of a Kubernetes node",
  description:
    "One process, `cni-agent run`, runs on each node. It follows the Node objects, writes this node's range for host-local, and keeps routes to the ranges of the other nodes. Plugins never wait for it. Every command has `--help`.",
  variables: [
    ["NODE_NAME", "the name of this node's Node object; else the name of the host"],
    ["KUBERNETES_SERVICE_HOST", "with `KUBERNETES_SERVICE_PORT`, the API server, without `--kubeconfig`"],
  ],
  files: [
    ["/run/cni/ranges/NETWORK.json", "this node's range, which host-local reads"],
    ["/run/cni/agent.sock", "the socket of its HTTP server: GET /status"],
    ["/var/lib/cni/networks", "host-local's reservations"],
  ],
  seeAlso: ["cni(1)", "cni-host-local(8)"],
}

function toolPage(tool: Tool, text: ToolText): string {
  const list = Object.entries(tool.commands).map(([name, { summary }]) =>
    term(`\`${name}\``, `${summary}; see \`${pageOf(tool, name)}\`(1)`),
  )
  const terms = (rows: readonly (readonly [string, string])[]) =>
    rows.map(([name, meaning]) => term(`\`${name}\``, meaning)).join("")
  return [
    header(tool.name, 1, source, "CNI plugins"),
    `${heading("Name")}${tool.name} \\- ${text.name}\n`,
    `${heading("Synopsis")}\\fB${tool.name.replaceAll("-", "\\-")}\\fR \\fICOMMAND\\fR [arguments]\n`,
    heading("Description"),
    paragraph(text.description),
    `${heading("Commands")}${list.join("")}`,
    `${heading("Exit status")}${exitCodes.map(([code, meaning]) => term(code, meaning)).join("")}`,
    `${heading("Environment")}${terms(text.variables)}`,
    `${heading("Files")}${terms(text.files)}`,
    seeAlso(text.seeAlso),
  ].join("")
}

function commandPage(tool: Tool, name: string, { summary, words, flags, help }: Command): string {
  const options = Object.entries(flags).map(([flag, { value, help: meaning, short }]) => {
    const spelled = [...(short ? [`\`-${short}\``] : []), `\`--${flag}\``].join(", ")
    return term(value === undefined ? spelled : `${spelled} ${value}`, meaning)
  })
  return [
    header(pageOf(tool, name), 1, source, "CNI plugins"),
    `${heading("Name")}${pageOf(tool, name)} \\- ${lowerFirst(summary)}\n`,
    `${heading("Synopsis")}\\fB${`${tool.name} ${name}`.replaceAll("-", "\\-")}\\fR ${[...words, "[flags]"].join(" ").replaceAll("…", " ...")}\n`,
    ...(help === "" ? [] : [heading("Description"), helpText(help)]),
    ...(options.length === 0 ? [] : [heading("Options"), ...options]),
    seeAlso([`${tool.name}(1)`]),
  ].join("")
}

/** Converts a command's help for a manual page, with indented lines unchanged. */
function helpText(help: string): string {
  const parts = help.split("\n").reduce<{ text: string; isLiteral: boolean }[]>((found, line) => {
    const isLiteral = line.startsWith("  ")
    const last = found.at(-1)
    if (line === "") found.push({ text: "", isLiteral: false })
    else if (last !== undefined && last.isLiteral === isLiteral && last.text !== "") last.text += `\n${line}`
    else found.push({ text: line, isLiteral })
    return found
  }, [])
  return parts
    .filter(({ text }) => text !== "")
    .map(({ text, isLiteral }) => (isLiteral ? literal(text.replace(/^ {2}/gm, "")) : paragraph(text)))
    .join("")
}

function pluginPage({ plugin: { name }, page, kind }: PluginRow): string {
  const [, first = "", rest = ""] = /^# .*\n\n((?:.+\n)+)([\s\S]*)$/.exec(page) ?? []
  const description = first.replace(/\s*\n/g, " ").trim()
  const [sentence = ""] = description.split(/[.:;](?: |$)/)
  const role = {
    interface: '"plugins" of a network\'s list',
    chained: '"plugins" of a network\'s list, after the plugin that creates the interface',
    ipam: '"ipam" of a network\'s list',
  }[kind]
  return [
    header(`cni-${name}`, 8, source, "CNI plugins"),
    `${heading("Name")}cni-${name} \\- ${lowerFirst(plain(sentence)).replaceAll("\\", "\\e")}\n`,
    heading("Synopsis"),
    literal(`{ "type": "${name}", ... }`),
    paragraph(`An object in ${role}. The runtime runs the plugin, \`/opt/cni/bin/${name}\`.`),
    heading("Description"),
    paragraph(description),
    fromMarkdown(rest),
    seeAlso(["cni(1)", "cni-lint(1)", "cni-schema(1)", "cni-explain(1)"]),
  ].join("")
}

function seeAlso(pages: readonly string[]): string {
  const names = pages.map((page) =>
    page.replace(/^(.*)\((\d)\)$/, (_, name, section) => `\\fB${name.replaceAll("-", "\\-")}\\fR(${section})`),
  )
  return `${heading("See also")}${names.join(",\n")}\n`
}

/** Returns a summary with a lower-case first letter: "attach a container". "DEL …" stays unchanged. */
function lowerFirst(text: string): string {
  return /^[A-Z][a-z]/.test(text) ? `${text[0]?.toLowerCase()}${text.slice(1)}` : text
}
