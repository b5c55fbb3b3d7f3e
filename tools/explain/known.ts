import errorsPage from "../../docs/errors.md" with { type: "text" }
import lintPage from "../../docs/lint.md" with { type: "text" }
import messagesPage from "../../docs/messages.md" with { type: "text" }
import { cellsOf, plain } from "../configuration/key-docs.ts"

/** A known message and its explanation. */
export interface KnownMessage {
  /** As the page has it, "…" for what is filled in. */
  readonly pattern: string
  readonly matcher: RegExp
  /** What is not filled in, in lower case. */
  readonly literals: readonly string[]
  /** The number of literal characters: the more, the surer is a match. */
  readonly weight: number
  readonly what: string
  /** Undefined where `what` has it. */
  readonly remedy: string | undefined
  readonly looks: readonly string[]
  /** The headline's link: "docs/errors.md#7-the-configuration". */
  readonly page: string
  /** The code of errors of this suite in that section. */
  readonly code: number | undefined
}

/** A section of a page: its headline, the link to it, and its text. */
export interface Section {
  readonly headline: string
  readonly page: string
  readonly text: string
}

/** Patterns with fewer given characters than these say nothing. */
const LEAST_WEIGHT = 8

/** Everything that docs/messages.md and docs/errors.md know. */
export function knownMessages(): KnownMessage[] {
  return [
    ...sectionsOf("docs/messages.md", messagesPage).flatMap((section) => messagesIn(section, undefined)),
    ...sectionsOf("docs/errors.md", errorsPage).flatMap((section) => messagesIn(section, codeOf(section.headline))),
  ]
}

/** The section of docs/errors.md for a code. */
export function sectionOfCode(code: number): Section | undefined {
  return sectionsOf("docs/errors.md", errorsPage).find(({ headline }) => codeOf(headline) === code)
}

/** The section of docs/lint.md for a rule. */
export function sectionOfRule(rule: string): Section | undefined {
  return sectionsOf("docs/lint.md", lintPage, "###").find(({ headline }) => headline === rule)
}

function codeOf(headline: string): number | undefined {
  const code = /^(\d+):/.exec(headline)?.[1]
  return code === undefined ? undefined : Number(code)
}

/** The parts of a page, each with its headline of a level. */
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

/** The name by which a link reaches a headline, as GitHub makes it. */
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
      const looks = look === undefined ? looksFor(pattern) : [...look.matchAll(/`([^`]+)`/g)].map(([, one = ""]) => one)
      const more = remedy === undefined ? undefined : plain(remedy)
      const literals = literalsOf(pattern)
      const matcher = matcherOf(literals)
      return [{ pattern, matcher, literals, weight, what: plain(what), remedy: more, looks, page, code }]
    })
  })
}

function literalsOf(pattern: string): string[] {
  return pattern.split(/…|KEY/).map((part) => part.trim().toLowerCase())
}

function matcherOf(literals: readonly string[]): RegExp {
  const parts = literals.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))
  return new RegExp(parts.join("[^\\n]*?"), "i")
}

/** Commands that show what an error of this suite is about, by words of its message. They change nothing. */
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

/** The commands that show more about a message, at most three. */
export function looksFor(message: string): string[] {
  const found = looks.filter(([words]) => words.test(message)).flatMap(([, commands]) => commands)
  return [...new Set(found)].slice(0, 3)
}
