import type { BaseChain, FoundRule } from "../../pkg/nftables/mod.ts"
import type { Packet } from "./packet.ts"

/** One step of a packet's path. */
export interface Hop {
  readonly where: "container" | "bridge" | "port" | "host" | "filter" | "tc" | "nat" | "end"
  readonly what: string
  /** "no": the packet ends here. "perhaps": the step depends on unknown data. */
  readonly passes: "yes" | "no" | "perhaps"
  /** The number of the path, from 1, if random choices lead to several. Undefined for steps that all paths share. */
  readonly way?: number
  /** Whether the step is part of the answer's path. */
  readonly isAnswer?: true
}

/** The base chain that drops a packet, by its policy or by a rule. */
export interface Stop {
  readonly base: BaseChain
  readonly rule: FoundRule | undefined
  /** The packet as it arrived at the chain's hook. */
  readonly packet: Packet
  /** The interface of the hooks "ingress" and "egress". */
  readonly device?: string | undefined
  readonly isInContainer?: true
}

/** The result of an evaluation. */
export interface Walk {
  readonly hops: readonly Hop[]
  /** The chain that drops the packet. Undefined if it ends otherwise, or if a random choice avoids the drop. */
  readonly stop: Stop | undefined
  /**
   * Whether the host has no usable route for the packet: no route at all, not counting drops by `rp_filter`, or a route
   * of policy routing whose interface is down or whose gateway is silent.
   */
  readonly isUnrouted: boolean
}

/** Collects the steps of a packet, and records which chain dropped it. */
export class PacketPath {
  readonly hops: Hop[] = []
  stop: Stop | undefined
  isUnrouted = false
  #isAnswer = false

  pass(where: Hop["where"], what: string, passes: Hop["passes"] = "yes"): void {
    this.hops.push({ where, what, passes, ...(this.#isAnswer ? { isAnswer: true } : {}) })
  }

  /** Marks the following steps as the answer's path. */
  turn(): void {
    this.#isAnswer = true
  }

  /** Adds the step at which the packet ends. */
  end(what: string): Hop[] {
    this.pass("end", what, "no")
    return this.hops
  }

  /** Adds a step that this tool cannot judge, where the packet may end. */
  notJudged(where: Hop["where"], what: string): void {
    this.pass(where, `not judged: ${what}`, "perhaps")
  }

  /** Appends the separately evaluated steps of the answer. */
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

/** Joins paths into one list: common steps once, then each path's own steps with its number. Drops duplicates. */
export function joinPaths(all: readonly (readonly Hop[])[]): Hop[] {
  const ways = [...new Map(all.map((hops) => [JSON.stringify(hops), hops])).values()]
  const [first = [], ...others] = ways
  if (others.length === 0) return [...first]
  const isShared = (hop: Hop, at: number) => others.every((way) => JSON.stringify(way[at]) === JSON.stringify(hop))
  const differing = first.findIndex((hop, at) => !isShared(hop, at))
  const split = differing === -1 ? first.length - 1 : differing // paths differ at least in their end
  return [
    ...first.slice(0, split),
    ...ways.flatMap((hops, at) => hops.slice(split).map((hop) => ({ ...hop, way: at + 1 }))),
  ]
}
