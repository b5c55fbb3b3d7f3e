/** Where a packet goes. */
export interface Destination {
  readonly ip: Uint8Array
  /** 0 for none: ICMP. */
  readonly port: number
  readonly protocol: "tcp" | "udp" | "icmp"
}

/** One step on the way. */
export interface Hop {
  readonly where: "container" | "bridge" | "host" | "filter" | "nat" | "end"
  readonly what: string
  /** "no": the packet ends here. "perhaps": it depends on what is not known here. */
  readonly passes: "yes" | "no" | "perhaps"
}

/** Collects hops; knows whether the packet has ended. */
export class Way {
  readonly hops: Hop[] = []

  pass(where: Hop["where"], what: string, passes: Hop["passes"] = "yes"): void {
    this.hops.push({ where, what, passes })
  }

  /** The packet ends here. */
  end(what: string): Hop[] {
    this.hops.push({ where: "end", what, passes: "no" })
    return this.hops
  }

  arrive(what: string): Hop[] {
    this.hops.push({
      where: "end",
      what,
      passes: this.hops.some(({ passes }) => passes === "perhaps") ? "perhaps" : "yes",
    })
    return this.hops
  }
}
