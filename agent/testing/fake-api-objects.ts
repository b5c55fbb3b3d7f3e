import { join } from "node:path"

/** An object as the API server keeps it. */
export interface FakeObject {
  apiVersion: string
  kind: string
  metadata: {
    name: string
    namespace?: string
    uid: string
    resourceVersion: string
    generation?: number
    creationTimestamp: string
    [other: string]: unknown
  }
  [other: string]: unknown
}

/** A part of an OpenAPI schema, as far as `deploy/cluster` uses it. */
interface Schema {
  readonly type?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema
  readonly items?: Schema
  readonly required?: readonly string[]
  readonly enum?: readonly unknown[]
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
}

/** One kind of objects. */
export interface FakeResource {
  readonly group: string
  readonly plural: string
  readonly kind: string
  readonly apiVersion: string
  readonly isNamespaced: boolean
  readonly hasStatus: boolean
  readonly schema?: Schema
}

const core = (plural: string, kind: string, isNamespaced = false): FakeResource => {
  return { group: "", plural, kind, apiVersion: "v1", isNamespaced, hasStatus: true }
}

/** What every cluster has, as far as agents ask for it. */
export const coreResources = [core("namespaces", "Namespace"), core("nodes", "Node"), core("pods", "Pod", true)]

/** The objects of whereabouts, in a cluster that has it. */
export const ipPools: FakeResource = {
  group: "whereabouts.cni.cncf.io",
  plural: "ippools",
  kind: "IPPool",
  apiVersion: "whereabouts.cni.cncf.io/v1alpha1",
  isNamespaced: true,
  hasStatus: false,
}

const deploy = join(import.meta.dir, "../../deploy/cluster")

async function documents(file: string): Promise<Record<string, never>[]> {
  return [Bun.YAML.parse(await Bun.file(join(deploy, file)).text())].flat() as Record<string, never>[]
}

/** The custom resources of `deploy/cluster`. */
export async function readCustomResources(): Promise<FakeResource[]> {
  // biome-ignore lint/suspicious/noExplicitAny: the file is ours
  return (await documents("crds.yaml")).map(({ spec }: any) => {
    const [version] = spec.versions
    return {
      group: spec.group,
      plural: spec.names.plural,
      kind: spec.names.kind,
      apiVersion: `${spec.group}/${version.name}`,
      isNamespaced: spec.scope === "Namespaced",
      hasStatus: version.subresources?.status !== undefined,
      schema: version.schema.openAPIV3Schema,
    }
  })
}

/** What one role may do. */
export interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames?: readonly string[]
  readonly verbs: readonly string[]
}

/** The rules of a ClusterRole of `deploy/cluster`. */
export async function readRules(role: string): Promise<Rule[]> {
  // biome-ignore lint/suspicious/noExplicitAny: the file is ours
  const found: any = (await documents("rbac.yaml")).find(({ kind, metadata }: any) => {
    return kind === "ClusterRole" && metadata.name === role
  })
  return found.rules
}

/** A value without what its schema does not name: the API server drops it without a word. */
export function prune(schema: Schema | undefined, value: unknown): unknown {
  if (!schema || typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return value.map((each) => prune(schema.items, each))
  const { properties, additionalProperties } = schema
  if (!properties && !additionalProperties) return value
  const entries = Object.entries(value).filter(([key]) => additionalProperties || Object.hasOwn(properties ?? {}, key))
  return Object.fromEntries(entries.map(([key, each]) => [key, prune(properties?.[key] ?? additionalProperties, each)]))
}

const typeOf = (value: unknown) => {
  if (Array.isArray(value)) return "array"
  if (value === null) return "null"
  return Number.isInteger(value) ? "integer" : typeof value
}

/** What is wrong with a value, as the API server says it: one sentence for each fault. */
export function faultsOf(schema: Schema | undefined, value: unknown, path: string): string[] {
  if (!schema) return []
  if (schema.type && schema.type !== typeOf(value))
    return [`${path}: Invalid value: "${typeOf(value)}": ${path} in body must be of type ${schema.type}`]
  const invalid = (text: string) => `${path}: Invalid value: ${JSON.stringify(value)}: ${path} in body ${text}`
  if (schema.enum && !schema.enum.includes(value)) return [`${path}: Unsupported value: ${JSON.stringify(value)}`]
  if (typeof value === "number") {
    if (schema.minimum !== undefined && value < schema.minimum) return [invalid(`should be at least ${schema.minimum}`)]
    if (schema.maximum !== undefined && value > schema.maximum) return [invalid(`should be at most ${schema.maximum}`)]
  }
  if (typeof value === "string") {
    if (value.length < (schema.minLength ?? 0)) return [invalid(`should be at least ${schema.minLength} chars long`)]
    if (value.length > (schema.maxLength ?? Infinity)) return [invalid(`may not be longer than ${schema.maxLength}`)]
    if (schema.pattern && !new RegExp(schema.pattern).test(value)) return [invalid(`should match '${schema.pattern}'`)]
  }
  if (Array.isArray(value)) {
    if (value.length < (schema.minItems ?? 0)) return [invalid(`should have at least ${schema.minItems} items`)]
    if (value.length > (schema.maxItems ?? Infinity)) return [invalid(`must have at most ${schema.maxItems} items`)]
    return value.flatMap((each, at) => faultsOf(schema.items, each, `${path}[${at}]`))
  }
  if (typeof value !== "object" || value === null) return []
  const missing = (schema.required ?? []).filter((key) => !Object.hasOwn(value, key))
  const inside = Object.entries(value).flatMap(([key, each]) => {
    return faultsOf(schema.properties?.[key] ?? schema.additionalProperties, each, path ? `${path}.${key}` : key)
  })
  return [...missing.map((key) => `${path ? `${path}.${key}` : key}: Required value`), ...inside]
}

// biome-ignore lint/suspicious/noExplicitAny: objects that their schema has let through
type Checked = any

/** Whether an object may be written, after the one that is there, and what is said where it may not. */
type ObjectRule = readonly [holds: (now: Checked, old: Checked) => boolean, message: string]

const kept = (...keys: string[]): ObjectRule[0] => {
  return ({ spec }, old) => old === undefined || keys.every((key) => spec[key] === old.spec[key])
}

/** The rules of `deploy/cluster/crds.yaml`, which are written in CEL there; a test holds the messages to be the same. */
export const objectRules: Readonly<Record<string, readonly ObjectRule[]>> = {
  pools: [
    [({ metadata }) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(metadata.name), "the name of a pool is a DNS label"],
    [
      (now, old) => old === undefined || Bun.deepEquals(shapesOf(now.spec), shapesOf(old.spec)),
      "prefix, blockLength and gateway cannot be changed, since nodes own blocks of them",
    ],
    [kept("network"), "network cannot be changed, since containers have addresses of it"],
  ],
  blocks: [
    [kept("pool", "prefix"), "the object of a block is that of one prefix"],
    [(now, old) => old === undefined || now.spec.epoch >= old.spec.epoch, "the epoch of a block never goes back"],
  ],
  fixedaddresses: [
    [
      ({ metadata: { name }, spec: { namespace, pod, ifName } }) =>
        name.startsWith("sha256-") || name === `${namespace}.${pod}.${ifName}`,
      "the name of a fixed address is NAMESPACE.POD.INTERFACE",
    ],
    [kept("pool", "namespace", "pod", "ifName"), "the object of a fixed address is that of one interface"],
  ],
}

/** What the rules say of an object that is to be written. */
export function brokenRules(plural: string, now: object, old?: object): string[] {
  const broken = (objectRules[plural] ?? []).filter(([holds]) => !holds(now, old))
  return broken.map(([, message]) => `Invalid value: "object": ${message}`)
}

function shapesOf({ prefixes }: Checked): string[] {
  return prefixes.map(({ prefix, blockLength, gateway }: Checked) => `${prefix} ${blockLength} ${gateway}`).sort()
}
