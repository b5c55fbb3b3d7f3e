import { type Content, commentOf, destinationOf, type Rule, targetOf } from "../../../pkg/iptables/mod.ts"
import { printEnd } from "../mapping.ts"

/** The rules of one attachment in its container's chain. */
export interface Block<R extends Rule = Rule> {
  /** "network/container/interface" from the mark before them; "" without one: upstream's rules have none. */
  owner: string
  /** The path of the container's namespace; "" when it is not known. */
  netns: string
  /** The mark first. */
  rules: R[]
}

/** The text of a mark. It says where the container's namespace is, so that somebody can tell when it is gone. */
export function markText(owner: string, netns: string): string {
  const text = `${owner} ${netns}`
  return text.length <= 255 && /^[\x20-\x7e]*$/.test(text) ? text : owner
}

/** The blocks of a chain, in their order. */
export function blocksOf<R extends Rule>({ rules }: Content<R>, chain: string): Block<R>[] {
  const blocks: Block<R>[] = []
  for (const rule of rules) {
    if (rule.chain !== chain) continue
    const mark = targetOf(rule) === undefined ? commentOf(rule) : undefined
    const last = blocks.at(-1)
    if (mark === undefined && last) {
      last.rules.push(rule)
      continue
    }
    const [owner = "", ...path] = (mark ?? "").split(" ")
    blocks.push({ owner, netns: path.join(" "), rules: [rule] })
  }
  return blocks
}

/** What a rule that translates takes, as a text to compare: "tcp 8080", "tcp 8080 203.0.113.1/32". */
export function endOf(rule: Rule): string | undefined {
  if (targetOf(rule) !== "DNAT") return undefined
  const parts = [wordAfter(rule, "-p"), wordAfter(rule, "--dport"), destinationOf(rule)]
  return parts.filter((part) => part !== undefined).join(" ")
}

/** Where a rule that translates sends packets to: "10.1.0.2:80". */
export function translationOf(rule: Rule): string | undefined {
  return wordAfter(rule, "--to-destination")
}

/** Whether a block has a rule that sends packets to an address. */
export function leadsTo({ rules }: Block, ip: Uint8Array): boolean {
  const beginning = printEnd(ip, 0).slice(0, -1)
  return rules.some((rule) => translationOf(rule)?.startsWith(beginning))
}

/** Whether a rule that leads to the block's chain is for one of its ports. */
export function isJumpFor(jump: Rule, { rules }: Block): boolean {
  const ports = wordAfter(jump, "--dports")?.split(",") ?? []
  return rules.some(
    (rule) => wordAfter(rule, "-p") === wordAfter(jump, "-p") && ports.includes(wordAfter(rule, "--dport") ?? ""),
  )
}

function wordAfter({ words }: Rule, option: string): string | undefined {
  const at = words.indexOf(option)
  return at === -1 ? undefined : words[at + 1]
}
