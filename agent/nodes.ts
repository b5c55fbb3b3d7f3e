import { formatCidr, networkOf, normalIp, parseCidr } from "../pkg/types/mod.ts"
import type { ApiObject, Follower } from "./api/follow.ts"

/** The properties of a Node object that the agent keeps. */
export interface NodeFacts {
  /** The ranges in `spec.podCIDRs`, in canonical form and without host bits. */
  readonly ranges: readonly string[]
  /** The addresses of type `InternalIP`. */
  readonly addresses: readonly string[]
  /** `status.nodeInfo.bootID` of this node's own Node. Absent until kubelet has written it. */
  readonly bootId?: string
}

/** The Nodes of the cluster, as the API server lists them. A list that fails midway has no effect. */
export class Nodes implements Follower {
  readonly path = "/api/v1/nodes"
  readonly kind = "NodeList"
  readonly own: string
  /** This node's own Node, if it was read before the first list. */
  early: NodeFacts | undefined
  readonly #changed: () => void
  readonly #report: (fault: string | undefined) => void
  #known: Map<string, NodeFacts> | undefined
  /** The Nodes of a list that is not yet complete. */
  #coming: Map<string, NodeFacts> | undefined
  #puts = 0

  constructor(own: string, changed: () => void, report: (fault: string | undefined) => void) {
    this.own = own
    this.#changed = changed
    this.#report = report
  }

  /** The Nodes by name. Undefined until the first list is complete. */
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

  /** Ends a list. Throws if the list is empty: this node has a Node, so the server must have lost its data. */
  complete(): void {
    if (this.#coming?.size === 0) throw new Error("The API server returned no Node objects; files and routes are kept")
    this.#known = this.#coming
    this.#coming = undefined
    Bun.gc(true) // the received objects are a thousand times as large as the kept properties
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
