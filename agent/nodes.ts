import { formatCidr, networkOf, normalIp, parseCidr } from "../pkg/types/mod.ts"
import type { ApiObject, Follower } from "./api/follow.ts"

/** The part of a Node object that is kept. */
export interface NodeFacts {
  /** The ranges: `spec.podCIDRs`, in canonical form and without host bits. */
  readonly ranges: readonly string[]
  /** The addresses of type `InternalIP`. */
  readonly addresses: readonly string[]
  /** `status.nodeInfo.bootID`, only of the own Node; absent until kubelet has written it. */
  readonly bootId?: string
}

/** The Nodes of the cluster according to the API server. A list that fails midway changes nothing. */
export class Nodes implements Follower {
  readonly path = "/api/v1/nodes"
  readonly kind = "NodeList"
  /** The name of this node. */
  readonly own: string
  /** The own Node, if it was read before the first list. */
  early: NodeFacts | undefined
  readonly #changed: () => void
  readonly #report: (fault: string | undefined) => void
  #known: Map<string, NodeFacts> | undefined
  /** The part of an incomplete list that has arrived. */
  #coming: Map<string, NodeFacts> | undefined
  #puts = 0

  constructor(own: string, changed: () => void, report: (fault: string | undefined) => void) {
    this.own = own
    this.#changed = changed
    this.#report = report
  }

  /** The Nodes by name; undefined until the first complete list. */
  get known(): ReadonlyMap<string, NodeFacts> | undefined {
    return this.#known
  }

  begin(): void {
    this.#coming = new Map()
  }

  put(object: ApiObject): void {
    const name: string = object.metadata.name
    const facts = factsOf(object, name === this.own)
    const nodes = this.#coming ?? this.#known
    if (nodes === undefined || Bun.deepEquals(nodes.get(name), facts)) return
    nodes.set(name, facts)
    if (!this.#coming) this.#changed()
    if (++this.#puts % COLLECT_EVERY === 0) Bun.gc(false)
  }

  /** A cluster that runs this agent has a Node, so a server that lists no Nodes has lost its data. */
  complete(): void {
    if (this.#coming?.size === 0) throw new Error("The API server returned no Node objects; files and routes are kept")
    this.#known = this.#coming
    this.#coming = undefined
    Bun.gc(true) // the objects are a thousand times as large as the facts
    this.#changed()
  }

  removed(object: ApiObject): void {
    if (this.#known?.delete(object.metadata.name)) this.#changed()
  }

  fault(message: string | undefined): void {
    if (message !== undefined) this.#coming = undefined
    this.#report(message)
  }
}

/** The number of changes of Nodes between two garbage collections. */
const COLLECT_EVERY = 1_000

export function factsOf({ spec, status }: ApiObject, isOwn: boolean): NodeFacts {
  const ranges: unknown[] = spec?.podCIDRs ?? (spec?.podCIDR ? [spec.podCIDR] : [])
  const addresses: ApiObject[] = status?.addresses ?? []
  const bootId: unknown = isOwn ? status?.nodeInfo?.bootID : undefined
  return {
    ranges: ranges.flatMap((text) => rangeIn(String(text))),
    addresses: addresses.flatMap(({ type, address }) => (type === "InternalIP" ? (normalIp(address) ?? []) : [])),
    ...(typeof bootId === "string" && bootId !== "" && { bootId }),
  }
}

function rangeIn(text: string): string[] {
  const cidr = parseCidr(text)
  return cidr === undefined ? [] : [formatCidr({ ip: networkOf(cidr), prefix: cidr.prefix })]
}
