/** The way of a packet. */
export interface Destination {
  readonly ip: Uint8Array
  /** 0 for no port: ICMP. */
  readonly port: number
  readonly protocol: "tcp" | "udp" | "icmp"
}

/** One step on the way. */
export interface Hop {
  readonly where: "container" | "bridge" | "host" | "filter" | "tc" | "nat" | "end"
  readonly what: string
  /** "no": the packet ends here. "perhaps": it depends on what is not known here. */
  readonly passes: "yes" | "no" | "perhaps"
  /** The number of the way, from 1, where chance decides. Undefined before the ways part. */
  readonly way?: number
  /** Whether it is a step of the answer, on its way back. */
  readonly isAnswer?: true
}

/** Collects hops; knows whether the packet has ended. */
export class Way {
  readonly hops: Hop[] = []
  #isAnswer = false

  pass(where: Hop["where"], what: string, passes: Hop["passes"] = "yes"): void {
    this.hops.push({ where, what, passes, ...(this.#isAnswer ? { isAnswer: true } : {}) })
  }

  /** What follows is of the answer. */
  turn(): void {
    this.#isAnswer = true
  }

  /** The packet ends here. */
  end(what: string): Hop[] {
    this.pass("end", what, "no")
    return this.hops
  }

  arrive(what: string): Hop[] {
    this.pass("end", what, this.hops.some(({ passes }) => passes === "perhaps") ? "perhaps" : "yes")
    return this.hops
  }
}

/** Several ways as one list: what they have in common once, then what is particular to each, with its number. Equal ways count once. */
export function joinWays(all: readonly (readonly Hop[])[]): Hop[] {
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
