import { formatCidr, networkOf, normalIp, parseCidr, type Route } from "../pkg/types/mod.ts"
import {
  type Block,
  type FixedAddress,
  type Kind,
  keyOf,
  type Node,
  type Owner,
  type Pool,
  type PoolPrefix,
  type Records,
  type Registry,
  type Want,
} from "./records.ts"
import { StoreError } from "./store.ts"

/** Reads a record from its JSON text, as `decodeRecord` does. */
export function parseRecord<K extends Kind>(kind: K, key: string, text: string): Records[K] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw malformed(kind, key, "it is not JSON", cause)
  }
  return decodeRecord(kind, key, value)
}

/**
 * Checks a record that came from a store: each member has its type, prefixes and addresses are in their normal form, and the
 * record is the one that its key names. Members that are not known, such as those of a newer agent, stay. Throws `StoreError` "refused" that names the key.
 */
export function decodeRecord<K extends Kind>(kind: K, key: string, value: unknown): Records[K] {
  try {
    const record: Records[K] = decoders[kind](new Members(value, ""))
    const own = (keyOf[kind] as (record: Records[K]) => string)(record)
    if (own !== key) throw new Malformed(`it is the record of "${own}"`)
    return record
  } catch (cause) {
    if (cause instanceof Malformed) throw malformed(kind, key, cause.message, cause)
    throw cause
  }
}

/** What is wrong with a record. */
class Malformed extends Error {}

function malformed(kind: Kind, key: string, reason: string, cause: unknown): StoreError {
  return new StoreError(`Cannot read the record "${kind}/${key}" of the store: ${reason}`, "refused", cause)
}

const decoders: { readonly [K in Kind]: (from: Members) => Records[K] } = {
  registry: decodeRegistry,
  block: decodeBlock,
  node: decodeNode,
  fixed: decodeFixed,
  want: decodeWant,
}

function decodeRegistry(from: Members): Registry {
  const pools = Object.entries(from.object("pools")).map(([name, value]): [string, Pool] => {
    const pool = decodePool(new Members(value, `pools.${name}`))
    if (pool.name !== name) throw new Malformed(`the pool "${name}" has the name "${pool.name}"`)
    return [name, pool]
  })
  return { ...from.all, pools: Object.fromEntries(pools) }
}

function decodePool(from: Members): Pool {
  return {
    ...from.all,
    name: from.text("name"),
    prefixes: from.list("prefixes", (value, path) => decodePoolPrefix(new Members(value, path))),
    routes: from.list("routes", (value, path) => decodeRoute(new Members(value, path))),
    network: from.text("network"),
    quarantineS: from.integer("quarantineS", 0),
    routing: from.oneOf("routing", ["none", "host-gw"]),
    ...from.flag("isRemoved"),
  }
}

function decodePoolPrefix(from: Members): PoolPrefix {
  const prefix = from.text("prefix", isPrefix, 'a prefix like "10.64.0.0/16"')
  const gateway = from.optional("gateway", (key) => from.text(key, isAddress, "an address"))
  return {
    ...from.all,
    prefix,
    blockLength: from.integer("blockLength", parseCidr(prefix)?.prefix ?? 0, prefix.includes(":") ? 128 : 32),
    ...(gateway !== undefined && { gateway }),
    reserved: from.list("reserved", (value, path) => checked(value, path, isPrefix, "a prefix")),
  }
}

/** The members of a route that are numbers. */
const routeNumbers = ["mtu", "advmss", "priority", "table", "scope"] as const

function decodeRoute(from: Members): Route {
  const route: Route = { ...from.all, dst: from.text("dst", isCidr, "an address with its prefix length") }
  const gw = from.optional("gw", (key) => from.text(key, isAddress, "an address"))
  if (gw !== undefined) route.gw = gw
  for (const name of routeNumbers) {
    const number = from.optional(name, (key) => from.integer(key, 0, 0xffff_ffff))
    if (number !== undefined) route[name] = number
  }
  return route
}

function decodeOwner(from: Members): Owner {
  const machineId = from.text("machineId", isText, "a text")
  return { ...from.all, name: from.text("name"), uid: from.text("uid"), machineId }
}

function decodeBlock(from: Members): Block {
  return {
    ...from.all,
    pool: from.text("pool"),
    prefix: from.text("prefix", isPrefix, 'a prefix like "10.64.3.0/26"'),
    owner: decodeOwner(from.members("owner")),
    nonce: from.text("nonce"),
    epoch: from.integer("epoch", 1),
    state: from.oneOf("state", ["owned", "draining", "quarantined"]),
  }
}

function decodeNode(from: Members): Node {
  return { ...from.all, owner: decodeOwner(from.members("owner")), addresses: addresses(from) }
}

function decodeFixed(from: Members): FixedAddress {
  const holder = from.optional("holder", (key) => decodeOwner(from.members(key)))
  return {
    ...from.all,
    pool: from.text("pool"),
    namespace: from.text("namespace"),
    pod: from.text("pod"),
    ifName: from.text("ifName"),
    addresses: addresses(from),
    ...(holder !== undefined && { holder }),
    nonce: from.text("nonce"),
  }
}

function decodeWant(from: Members): Want {
  const owner = decodeOwner(from.members("owner"))
  return { ...from.all, pool: from.text("pool"), owner, ...from.flag("isUrgent") }
}

function addresses(from: Members): string[] {
  return from.list("addresses", (value, path) => checked(value, path, isAddress, "an address"))
}

const isText = () => true
const isPresent = (text: string) => text !== ""
const isAddress = (text: string) => normalIp(text) === text
const isCidr = (text: string) => {
  const cidr = parseCidr(text)
  return cidr !== undefined && formatCidr(cidr) === text
}
const isPrefix = (text: string) => {
  const cidr = parseCidr(text)
  return cidr !== undefined && formatCidr({ ip: networkOf(cidr), prefix: cidr.prefix }) === text
}

function checked(value: unknown, path: string, isValid: (text: string) => boolean, expected: string): string {
  if (typeof value === "string" && isValid(value)) return value
  throw new Malformed(`"${path}" is ${shown(value)}: expected ${expected}`)
}

function shown(value: unknown): string {
  if (value === undefined) return "absent"
  const text = JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** The members of a JSON object, by name and type. */
class Members {
  readonly all: Readonly<Record<string, unknown>>
  readonly #path: string

  constructor(value: unknown, path: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw new Malformed(`${path === "" ? "it" : `"${path}"`} is ${shown(value)}: expected an object`)
    this.all = value as Record<string, unknown>
    this.#path = path
  }

  #get(key: string): unknown {
    return Object.hasOwn(this.all, key) ? this.all[key] : undefined
  }

  #pathOf(key: string): string {
    return this.#path === "" ? key : `${this.#path}.${key}`
  }

  text(key: string, isValid = isPresent, expected = "a text"): string {
    return checked(this.#get(key), this.#pathOf(key), isValid, expected)
  }

  integer(key: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
    const value = this.#get(key)
    if (Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most) return Number(value)
    throw new Malformed(`"${this.#pathOf(key)}" is ${shown(value)}: expected an integer from ${least} to ${most}`)
  }

  oneOf<T extends string>(key: string, choices: readonly T[]): T {
    const found = choices.find((choice) => choice === this.#get(key))
    if (found !== undefined) return found
    const expected = choices.map((choice) => `"${choice}"`).join(" or ")
    throw new Malformed(`"${this.#pathOf(key)}" is ${shown(this.#get(key))}: expected ${expected}`)
  }

  /** A member that is true or absent. */
  flag<K extends string>(key: K): { readonly [_ in K]?: true } {
    const value = this.#get(key)
    if (value === undefined) return {}
    if (value !== true) throw new Malformed(`"${this.#pathOf(key)}" is ${shown(value)}: expected true`)
    return { [key]: true } as { readonly [_ in K]?: true }
  }

  object(key: string): object {
    void new Members(this.#get(key), this.#pathOf(key))
    return this.#get(key) as object
  }

  members(key: string): Members {
    return new Members(this.#get(key), this.#pathOf(key))
  }

  list<T>(key: string, read: (value: unknown, path: string) => T): T[] {
    const value = this.#get(key)
    if (!Array.isArray(value)) throw new Malformed(`"${this.#pathOf(key)}" is ${shown(value)}: expected a list`)
    return value.map((each: unknown, at) => read(each, `${this.#pathOf(key)}[${at}]`))
  }

  optional<T>(key: string, read: (key: string) => T): T | undefined {
    return this.#get(key) === undefined ? undefined : read(key)
  }
}
