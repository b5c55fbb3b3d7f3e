import errorsPage from "../../docs/errors.md" with { type: "text" }
import lintPage from "../../docs/lint.md" with { type: "text" }
import messagesPage from "../../docs/messages.md" with { type: "text" }
import { cellsOf, plain } from "../configuration/mod.ts"

export interface KnownMessage {
  /** The pattern as the page has it, with "…" for names. */
  readonly pattern: string
  readonly matcher: RegExp
  /** The parts of the pattern between names, in lower case. */
  readonly literals: readonly string[]
  /** The number of literal characters. A match of more characters is more certain. */
  readonly weight: number
  readonly what: string
  /** The remedy. Undefined if `what` includes it. */
  readonly remedy: string | undefined
  readonly looks: readonly string[]
  /** The link to the section: "docs/errors.md#7-the-configuration". */
  readonly page: string
  /** The code of this suite's errors in that section. */
  readonly code: number | undefined
  /** The kind of the message. Undefined for a message that no other program writes. */
  readonly kind?: MessageKind | undefined
}

/**
 * "frame": text around the message of another program. "common": words that any program may write. They count only in
 * lines about container networks, and do not identify a plugin of another suite.
 */
export type MessageKind = "frame" | "common"

/** The kinds of messages by section of docs/messages.md. */
const kinds: Readonly<Record<string, MessageKind>> = {
  "Words around a message": "frame",
  "Words of any program": "common",
}

/** The section of docs/messages.md about logs of other suites. Its rows are not messages. */
const LOGS = "Logs of other suites"

/** The least weight at which this suite's messages are certain. Any program may write shorter ones: "Cannot find …". */
const LEAST_OWN_WEIGHT = 24

/** A section of a page: its heading, a link to it, and its text. */
export interface Section {
  readonly headline: string
  readonly page: string
  readonly text: string
}

/** The least number of literal characters in a pattern. Shorter patterns match too many messages. */
const LEAST_WEIGHT = 8

/** Returns all messages of docs/messages.md and docs/errors.md. */
export function knownMessages(): KnownMessage[] {
  return [
    ...sectionsOf("docs/messages.md", messagesPage)
      .filter(({ headline }) => headline !== LOGS)
      .flatMap((section) => messagesIn(section, undefined).map((row) => ({ ...row, kind: kinds[section.headline] }))),
    ...sectionsOf("docs/errors.md", errorsPage).flatMap((section) =>
      messagesIn(section, codeOf(section.headline)).map((row) => ({
        ...row,
        kind: row.weight < LEAST_OWN_WEIGHT ? ("common" as const) : undefined,
      })),
    ),
  ]
}

/** Returns the entry for an unknown message of a plugin: the plugin's suite, and where its log is. */
export function unknownMessageOf(plugin: string): KnownMessage {
  const section = sectionsOf("docs/messages.md", messagesPage).find(({ headline }) => headline === LOGS)
  const rows = section?.text.split("\n").map(cellsOf) ?? []
  const [, suite, remedy, look] = rows.find(([names = ""]) => names.includes(`\`${plugin}\``)) ?? []
  const unknown = { pattern: plugin, literals: [plugin], matcher: matcherOf([plugin]), weight: 0, code: undefined }
  return {
    ...unknown,
    what: `the message is unknown. The plugin "${plugin}"${suite ? `, of ${plain(suite)},` : ""} wrote it`,
    remedy:
      remedy === undefined
        ? "read the log of the runtime, and of the program that installed the plugin"
        : plain(remedy),
    looks:
      look === undefined ? ["journalctl -u containerd -u crio -u kubelet", "cni lint", "cni doctor"] : codesIn(look),
    page: section?.page ?? "docs/messages.md",
  }
}

/** Returns the section of docs/errors.md about a code. */
export function sectionOfCode(code: number): Section | undefined {
  return sectionsOf("docs/errors.md", errorsPage).find(({ headline }) => codeOf(headline) === code)
}

/** Returns the section of docs/lint.md about a rule. */
export function sectionOfRule(rule: string): Section | undefined {
  return sectionsOf("docs/lint.md", lintPage, "###").find(({ headline }) => headline === rule)
}

function codeOf(headline: string): number | undefined {
  const code = /^(\d+):/.exec(headline)?.[1]
  return code === undefined ? undefined : Number(code)
}

/** Returns the sections of a page whose headings have this level. */
export function sectionsOf(file: string, page: string, level = "##"): Section[] {
  const parts = page.split(new RegExp(`^${level} `, "m")).slice(1)
  return parts.map((part) => {
    const [headline = "", ...lines] = part.split("\n")
    const end = lines.findIndex((line) => /^#{1,3} /.test(line))
    const text = lines
      .slice(0, end < 0 ? undefined : end)
      .join("\n")
      .trim()
    return { headline, page: `${file}#${anchorOf(headline)}`, text }
  })
}

/** Returns the anchor of a heading, as GitHub forms it. */
function anchorOf(headline: string): string {
  return headline
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-")
}

function messagesIn({ text, page }: Section, code: number | undefined): KnownMessage[] {
  const rows = text.split("\n").filter((line) => /^\| .*`/.test(line))
  return rows.flatMap((row) => {
    const [messages = "", what = "", remedy, look] = cellsOf(row)
    return [...messages.matchAll(/`([^`]+)`/g)].flatMap(([, pattern = ""]) => {
      const weight = pattern.replace(/…|KEY|\s/g, "").length
      if (weight < LEAST_WEIGHT) return []
      const looks = look === undefined ? looksFor(pattern) : codesIn(look)
      const more = remedy === undefined ? undefined : plain(remedy)
      const literals = literalsOf(pattern)
      const matcher = matcherOf(literals)
      return [{ pattern, matcher, literals, weight, what: plain(what), remedy: more, looks, page, code }]
    })
  })
}

function codesIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, one = ""]) => one)
}

function literalsOf(pattern: string): string[] {
  return pattern.split(/…|KEY/).map((part) => part.trim().toLowerCase())
}

/**
 * Returns the regular expression for a pattern. A name between quotes contains no quote, so that a pattern does not
 * extend beyond its frame. A quote at the end is optional, because log formats may remove it.
 */
function matcherOf(literals: readonly string[]): RegExp {
  const source = literals.reduce((before, part, index) => {
    const isQuoted = literals[index - 1]?.endsWith('"') === true && part.startsWith('"')
    const text = part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
    return index === 0 ? text : `${before}${isQuoted ? '[^"\\n]*?' : "[^\\n]*?"}${text}`
  }, "")
  return new RegExp(source.replace(/"$/, '"?'), "i")
}

/** Read-only commands that show the objects of an error, by words of the error's message. */
const looks: readonly (readonly [RegExp, readonly string[]])[] = [
  [/plugin "…" in path|Cannot start plugin/, ["ls -l /opt/cni/bin", "cni lint"]],
  [/CNI_NETNS|netns/, ["findmnt -t nsfs", "ip netns"]],
  [
    /Cannot use "KEY"|Cannot use "ipam|range set|no net configuration|ipam\.type|IPAM config|cniVersion|network config/,
    ["cni lint"],
  ],
  [/chained plugin|prevResult|gateways list|port mappings: prevResult/, ["cni lint"]],
  [/failed to allocate|reserve|release|no IP addresses/, ["cni ipam ls"]],
  [/host port|map ports/i, ["nft list table ip cni_hostports", "ss -tulpn"]],
  [/masquerade/, ["nft list table ip cni_masquerade", "cni status NETWORK"]],
  [/source MAC|guard port/, ["nft list table bridge cni_spoofcheck"]],
  [/VLAN/, ["bridge vlan", "ip -d link show type bridge"]],
  [/bridge/i, ["ip -d link show type bridge", "bridge link"]],
  [/master/, ["ip -d link"]],
  [/device|rename/, ["ip -d link", "ls -l /sys/bus/pci/devices"]],
  [/sysctl|allow list|backup/i, ["ls -l /run/cni/tuning", "cat /etc/cni/tuning/allowlist.conf"]],
  [/forwarding/, ["sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding", "findmnt /proc/sys"]],
  [/cache|cached/, ["ls -l /var/lib/cni/results", "df -h /var/lib/cni"]],
  [/Cannot lock|lost the lock/, ["cat /proc/locks", "ps -eo pid,etime,args"]],
  [/tun"|tap/, ["ls -l /dev/net/tun", "cni status NETWORK"]],
  [/Check of|CHECK/, ["cni diff NETWORK CONTAINER"]],
  [/attached already|it already exists|duplicate allocation/, ["cni ipam ls", "ls /var/lib/cni/results"]],
]

/** Returns at most three commands that show the objects of a message. */
export function looksFor(message: string): string[] {
  const found = looks.filter(([words]) => words.test(message)).flatMap(([, commands]) => commands)
  return [...new Set(found)].slice(0, 3)
}
