import { decodeRecord } from "../../decode-record.ts"
import { type Kind, keyOf, type Records } from "../../records.ts"
import { type Stored, StoreError } from "../../store.ts"
import { objectName } from "./names.ts"

/** The group of the custom resources of `deploy/cluster`. The domain "internal" is reserved for names that no one owns. */
export const apiGroup = "cni-agent.internal"
export const apiVersion = `${apiGroup}/v1`

/** A kind of objects of the API: where they are, and what one calls itself. */
export interface Resource {
  /** "/apis/cni-agent.internal/v1/blocks", "/api/v1/nodes" */
  readonly path: string
  readonly kind: string
}

const custom = (kind: string, plural: string): Resource => ({ path: `/apis/${apiVersion}/${plural}`, kind })

/** The custom resources that records are kept in. */
export const resourceOf: Readonly<Record<Kind, Resource>> = {
  registry: custom("PoolRegistry", "poolregistries"),
  block: custom("Block", "blocks"),
  node: custom("AgentNode", "agentnodes"),
  fixed: custom("FixedAddress", "fixedaddresses"),
  want: custom("BlockWant", "blockwants"),
}

/** The pools that users write. */
export const poolResource = custom("Pool", "pools")
export const nodeResource: Resource = { path: "/api/v1/nodes", kind: "Node" }
/** Where whereabouts keeps the addresses that it has handed out. */
export const ipPoolResource: Resource = { path: "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools", kind: "IPPool" }
export const podResource: Resource = { path: "/api/v1/pods", kind: "Pod" }

/** What every object has. */
export interface Metadata {
  readonly name: string
  readonly namespace?: string
  readonly uid?: string
  readonly resourceVersion?: string
  readonly generation?: number
}

/** An object of the API. */
export interface ApiObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: Metadata
  readonly spec?: unknown
  readonly status?: unknown
}

/** An object to send, with a record in it. `metadata` has what is compared, when it replaces another one. */
export function toObject<K extends Kind>(kind: K, key: string, value: Records[K], compare?: Compared): ApiObject {
  const metadata = { name: objectName(kind, key), ...compare }
  return { apiVersion, kind: resourceOf[kind].kind, metadata, spec: value }
}

/**
 * The record of an object; `undefined` for one that cannot be read, or whose name does not belong to its record: people write objects, too, and
 * one that is wrong must not keep an agent from the others. No agent wrote it, and no compare-and-swap sees it.
 */
export function toStored<K extends Kind>(kind: K, { metadata, spec }: ApiObject): Stored<K> | undefined {
  const { name, uid, resourceVersion } = metadata
  const key = keyOfRecord(kind, spec)
  if (key === undefined || objectName(kind, key) !== name || !uid || !resourceVersion) return undefined
  try {
    const value = decodeRecord(kind, key, withDefaults(kind, spec))
    return { kind, key, value, version: `${uid} ${resourceVersion}`, revision: BigInt(resourceVersion) }
  } catch (error) {
    if (error instanceof StoreError) return undefined
    throw error
  }
}

/** An operator who writes a fixed address by hand gives no nonce. */
function withDefaults(kind: Kind, spec: unknown): unknown {
  return kind === "fixed" ? { nonce: "by hand", ...(spec as object) } : spec
}

/** The key of a record; `undefined` where a part of it is missing. */
function keyOfRecord(kind: Kind, spec: unknown): string | undefined {
  try {
    const key = (keyOf[kind] as (value: unknown) => string)(spec)
    return key.split("/").includes("undefined") ? undefined : key
  } catch {
    return undefined // no `owner`, or no object at all
  }
}

/** What the API server compares before it replaces or removes an object. */
export interface Compared {
  readonly uid: string
  readonly resourceVersion: string
}

export function comparedOf({ version }: Stored<Kind>): Compared {
  const [uid = "", resourceVersion = ""] = version.split(" ")
  return { uid, resourceVersion }
}
