import type { BaseChain, FoundRule } from "../../pkg/nftables/mod.ts"
import type { Packet } from "./packet.ts"

/** One step on the way. */
export interface Hop {
  readonly where: "container" | "bridge" | "port" | "host" | "filter" | "tc" | "nat" | "end"
  readonly what: string
  /** "no": the packet ends here. "perhaps": it depends on unknown data. */
  readonly passes: "yes" | "no" | "perhaps"
  /** The number of the way, from 1, where chance decides. Undefined before the ways part. */
  readonly way?: number
  /** Whether it is a step of the answer, on its way back. */
  readonly isAnswer?: true
}

/** The base chain that drops a packet, by its policy or by a rule. */
export interface Stop {
  readonly base: BaseChain
  readonly rule: FoundRule | undefined
  /** The packet as it came to the chain's hook. */
  readonly packet: Packet
  /** The interface, of "ingress" and "egress". */
  readonly device?: string | undefined
  readonly isInContainer?: true
}

/** The result of a walk. */
export interface Walk {
  readonly hops: readonly Hop[]
  /** The chain that drops the packet; undefined where it ends otherwise, or only on one of several ways. */
  readonly stop: Stop | undefined
  /**
   * Whether the host has no way for it, but for `rp_filter`, or sends it by a table of policy routing to a dead
   * interface.
   */
  readonly isUnrouted: boolean
}

/** Collects hops, and records whether the packet has ended. */
export class PacketPath {
  readonly hops: Hop[] = []
  stop: Stop | undefined
  isUnrouted = false
  #isAnswer = false

  pass(where: Hop["where"], what: string, passes: Hop["passes"] = "yes"): void {
    this.hops.push({ where, what, passes, ...(this.#isAnswer ? { isAnswer: true } : {}) })
  }

  /** The following steps are of the answer. */
  turn(): void {
    this.#isAnswer = true
  }

  /** The packet ends here. */
  end(what: string): Hop[] {
    this.pass("end", what, "no")
    return this.hops
  }

  /** Says what this tool cannot judge: the packet may end there. */
  notJudged(where: Hop["where"], what: string): void {
    this.pass(where, `not judged: ${what}`, "perhaps")
  }

  /** Takes over the hops of the answer, which was followed by itself. */
  append({ hops, stop, isUnrouted }: PacketPath): Hop[] {
    this.hops.push(...hops)
    this.stop ??= stop
    this.isUnrouted ||= isUnrouted
    return this.hops
  }

  arrive(what: string): Hop[] {
    this.pass("end", what, this.hops.some(({ passes }) => passes === "perhaps") ? "perhaps" : "yes")
    return this.hops
  }
}

/**
 * Several paths as one list: the common hops once, then the different ones of each path with its number. Equal paths
 * count once.
 */
export function joinPaths(all: readonly (readonly Hop[])[]): Hop[] {
  const ways = [...new Map(all.map((hops) => [JSON.stringify(hops), hops])).values()]
  const [first = [], ...others] = ways
  if (others.length === 0) return [...first]
  const isShared = (hop: Hop, at: number) => others.every((way) => JSON.stringify(way[at]) === JSON.stringify(hop))
  const differing = first.findIndex((hop, at) => !isShared(hop, at))
  const split = differing === -1 ? first.length - 1 : differing // each way has an end of its own
  return [
    ...first.slice(0, split),
    ...ways.flatMap((hops, at) => hops.slice(split).map((hop) => ({ ...hop, way: at + 1 }))),
  ]
}
