import type { Verdict } from "../../pkg/nftables/mod.ts"

/** The action of a rule on a matching packet. */
export type Action =
  | { readonly kind: "accept" | "drop" | "return" }
  | { readonly kind: "jump" | "goto"; readonly chain: string }
  | Mapping
  /** Hands the packet to something that this tool does not follow: a queue, a proxy. */
  | { readonly kind: "other"; readonly what: string }

/** A change of the connection's destination or source. */
export interface Mapping {
  readonly kind: "destination" | "source"
  /** Undefined: as it is, or not known. */
  readonly ip?: Uint8Array | undefined
  readonly port?: number | undefined
  /** The source of the address: given in the rule, of the interface that it goes out by, of the one that it came in by. */
  readonly from: "rule" | "output" | "input"
  /** Whether it is one of several that is not known beforehand, or not known at all. */
  readonly isOpen: boolean
}

/** The outcome of a rule for a packet. */
export interface Evaluated<P> {
  /** "perhaps": it looks at what cannot be known here, and would then do `action`. */
  readonly matches: "yes" | "no" | "perhaps"
  readonly action?: Action | undefined
  /** The packet behind the rule: expressions may set its mark. */
  readonly packet: P
  /** The unknown facts that the rule compares, without repetition. */
  readonly unknown: readonly string[]
  /** What the rule does to the packet that this tool does not follow. */
  readonly notJudged: readonly string[]
}

export const DROP: Action = { kind: "drop" }

/** `enum nft_verdicts`, as they travel. */
const [NF_DROP, NF_ACCEPT, NF_QUEUE] = [0, 1, 3]
const NFT = { jump: -3 >>> 0, goto: -4 >>> 0, return: -5 >>> 0 } as const

/** The action of a verdict; undefined to go on. */
export function actionOf(code: number, chain = ""): Action | undefined {
  if (code === NF_DROP) return DROP
  if (code === NF_ACCEPT) return { kind: "accept" }
  if (code === NFT.return) return { kind: "return" }
  if (code === NFT.jump) return { kind: "jump", chain }
  if (code === NFT.goto) return { kind: "goto", chain }
  return (code & 0xff) === NF_QUEUE ? { kind: "other", what: "queue" } : undefined
}

/** The same of an element of a map. */
export function verdictAction(verdict: Verdict): Action {
  if (typeof verdict === "string") return { kind: verdict }
  return "jump" in verdict ? { kind: "jump", chain: verdict.jump } : { kind: "goto", chain: verdict.goto }
}
