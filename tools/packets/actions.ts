import type { Verdict } from "../../pkg/nftables/mod.ts"

export type Action =
  | { readonly kind: "accept" | "drop" | "return" }
  | { readonly kind: "jump" | "goto"; readonly chain: string }
  | Mapping
  /** Hands the packet to a component that this tool does not evaluate: a queue or a proxy. */
  | { readonly kind: "other"; readonly what: string }

/** A change of the packet's destination or source by NAT. */
export interface Mapping {
  readonly kind: "destination" | "source"
  /** The new address. Undefined if it is unchanged or unknown. */
  readonly ip?: Uint8Array | undefined
  readonly port?: number | undefined
  /** Where the new address comes from: the rule, the output interface, or the input interface. */
  readonly from: "rule" | "output" | "input"
  /** Whether the new value is one of several, or unknown. */
  readonly isOpen: boolean
}

export interface Evaluated<P> {
  /** "perhaps": the rule depends on unknown facts. If it matches, it performs `action`. */
  readonly matches: "yes" | "no" | "perhaps"
  readonly action?: Action | undefined
  /** The packet after the rule, whose expressions may set its mark. */
  readonly packet: P
  /** The unknown facts that the rule compares, without duplicates. */
  readonly unknown: readonly string[]
  /** Effects of the rule on the packet that this tool does not evaluate. */
  readonly notJudged: readonly string[]
}

export const DROP: Action = { kind: "drop" }

/** `enum nft_verdicts`, as messages encode it. */
const [NF_DROP, NF_ACCEPT, NF_QUEUE] = [0, 1, 3]
const NFT = { jump: -3 >>> 0, goto: -4 >>> 0, return: -5 >>> 0 } as const

/** Returns the action of a verdict code, or undefined for `continue`. */
export function actionOf(code: number, chain = ""): Action | undefined {
  if (code === NF_DROP) return DROP
  if (code === NF_ACCEPT) return { kind: "accept" }
  if (code === NFT.return) return { kind: "return" }
  if (code === NFT.jump) return { kind: "jump", chain }
  if (code === NFT.goto) return { kind: "goto", chain }
  return (code & 0xff) === NF_QUEUE ? { kind: "other", what: "queue" } : undefined
}

export function verdictAction(verdict: Verdict): Action {
  if (typeof verdict === "string") return { kind: verdict }
  return "jump" in verdict ? { kind: "jump", chain: verdict.jump } : { kind: "goto", chain: verdict.goto }
}
