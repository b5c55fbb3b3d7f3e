import { version } from "../../package.json"
import type { Command } from "../../tools/command.ts"
import { plain } from "../../tools/configuration/key-docs.ts"
import { type Known, knownPlugins } from "../../tools/configuration/plugins.ts"
import { commands } from "../cni/main.ts"
import { fromMarkdown } from "./from-markdown.ts"
import { header, heading, literal, paragraph, term } from "./roff.ts"

const source = `cni-plugins ${version}`

/** Every manual page, by its path below a directory of manuals: "man1/cni.1". Made from the tables that the help is made from. */
export function manualPages(): Record<string, string> {
  const own = Object.entries(commands).map(([name, command]) => [`man1/${pageOf(name)}.1`, commandPage(name, command)])
  const plugins = knownPlugins.map((known) => [`man8/cni-${known.name}.8`, pluginPage(known)])
  return { "man1/cni.1": toolPage(), ...Object.fromEntries([...own, ...plugins]) }
}

/** "cni-ipam-ls" for "ipam ls". */
function pageOf(command: string): string {
  return `cni-${command.replaceAll(" ", "-")}`
}

const exitCodes: readonly (readonly [string, string])[] = [
  ["0", "it is done, or nothing was found"],
  ["1", "it failed; the message says why"],
  ["2", "the command line was not understood"],
  ["3", "a command that looks for faults has found some"],
]

const variables: readonly (readonly [string, string])[] = [
  ["NETCONFPATH", "the directory of configurations, without `--conf-dir`"],
  ["CNI_PATH", "the directories of plugins, without `--bin-dir`"],
  ["CNI_IFNAME", "the interface in the container, without `--ifname`"],
  ["CNI_ARGS", "arguments for plugins: K=V;K=V"],
  ["CAP_ARGS", "a JSON object with a value for each capability"],
  ["NO_COLOR", "no colours, with any value"],
]

const files: readonly (readonly [string, string])[] = [
  ["/etc/cni/net.d", "configurations of networks, *.conflist and *.conf; sorted by name, the first is that of pods"],
  ["/opt/cni/bin", "the plugins"],
  ["/var/lib/cni/results", "what runtimes keep of each ADD"],
  ["/var/lib/cni/networks", "host-local's reservations"],
]

function toolPage(): string {
  const list = Object.entries(commands).map(([name, { summary }]) =>
    term(`\`${name}\``, `${summary}; see \`${pageOf(name)}\`(1)`),
  )
  return [
    header("cni", 1, source, "CNI plugins"),
    `${heading("Name")}cni \\- attach containers to networks by hand, look at a node, check configurations\n`,
    `${heading("Synopsis")}\\fBcni\\fR \\fICOMMAND\\fR [arguments]\n`,
    heading("Description"),
    paragraph(
      "For people and scripts; no node needs it. Without a daemon: it reads the kernel, the runtime's records, host-local's store and the configurations. Every command has `--help`.",
    ),
    `${heading("Commands")}${list.join("")}`,
    `${heading("Exit status")}${exitCodes.map(([code, meaning]) => term(code, meaning)).join("")}`,
    `${heading("Environment")}${variables.map(([name, meaning]) => term(`\`${name}\``, meaning)).join("")}`,
    `${heading("Files")}${files.map(([name, meaning]) => term(`\`${name}\``, meaning)).join("")}`,
    seeAlso(knownPlugins.map(({ name }) => `cni-${name}(8)`)),
  ].join("")
}

function commandPage(name: string, { summary, words, flags, help }: Command): string {
  const options = Object.entries(flags).map(([flag, { value, help: meaning, short }]) => {
    const spelled = [...(short ? [`\`-${short}\``] : []), `\`--${flag}\``].join(", ")
    return term(value === undefined ? spelled : `${spelled} ${value}`, meaning)
  })
  return [
    header(pageOf(name), 1, source, "CNI plugins"),
    `${heading("Name")}${pageOf(name)} \\- ${lowerFirst(summary)}\n`,
    `${heading("Synopsis")}\\fBcni ${name.replaceAll("-", "\\-")}\\fR ${[...words, "[flags]"].join(" ").replaceAll("…", " ...")}\n`,
    ...(help === "" ? [] : [heading("Description"), helpText(help)]),
    ...(options.length === 0 ? [] : [heading("Options"), ...options]),
    seeAlso(["cni(1)"]),
  ].join("")
}

/** A command's help: lines that are indented stay as they are. */
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

function pluginPage({ name, page, kind }: Known): string {
  const [, first = "", rest = ""] = /^# .*\n\n((?:.+\n)+)([\s\S]*)$/.exec(page) ?? []
  const description = first.replace(/\s*\n/g, " ").trim()
  const [sentence = ""] = description.split(/[.:;](?: |$)/)
  const role = {
    interface: '"plugins"',
    chained: '"plugins", after the one that makes the interface,',
    ipam: '"ipam"',
  }[kind]
  return [
    header(`cni-${name}`, 8, source, "CNI plugins"),
    `${heading("Name")}cni-${name} \\- ${lowerFirst(plain(sentence)).replaceAll("\\", "\\e")}\n`,
    heading("Synopsis"),
    literal(`{ "type": "${name}", ... }`),
    paragraph(`An object in ${role} of a network's list. The runtime runs the plugin, \`/opt/cni/bin/${name}\`.`),
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

/** "Attach a container" becomes "attach a container"; "DEL …" stays. */
function lowerFirst(text: string): string {
  return /^[A-Z][a-z]/.test(text) ? `${text[0]?.toLowerCase()}${text.slice(1)}` : text
}
