import {
  CniError,
  type Dns,
  formatMac,
  type NetworkConfig,
  parseCidr,
  parseMac,
  readCniArgs,
  validateInterfaceName,
} from "../types/mod.ts"
import { invalidConfig } from "./parse.ts"
import type { Fields, Infer } from "./schema.ts"

/** A boolean key that is false by default. */
export const off = { kind: "boolean", default: false } as const

/** An interface name that the kernel accepts: 1 to 15 bytes, no "/", ":" or white space. */
export const interfaceName = {
  kind: "text",
  expected: "an interface name",
  check: checkInterfaceName,
  form: "an interface name of 1 to 15 bytes without '/', ':' or white space",
  pattern: "^(?!\\.\\.?$)[^/:%\\s\\u0000]{1,15}$",
} as const

/** The name of an existing link, or one of its alternative names of up to 127 bytes; "" means no name. */
export const linkNameOrNone = {
  ...interfaceName,
  check: (name: string) => (/^$|^[!-.0-~]{16,127}$/.test(name) ? name : checkInterfaceName(name)),
  pattern: "^$|^[!-.0-~]{16,127}$|^(?!\\.\\.?$)[^/:%\\s\\u0000]{1,15}$",
} as const

/** A hardware address of 6, 8 or 20 bytes, as parsed by `parseMac`. */
const MAC_PATTERN =
  "([0-9A-Fa-f]{2}((:[0-9A-Fa-f]{2}){5}|(:[0-9A-Fa-f]{2}){7}|(:[0-9A-Fa-f]{2}){19}" +
  "|(-[0-9A-Fa-f]{2}){5}|(-[0-9A-Fa-f]{2}){7}|(-[0-9A-Fa-f]{2}){19})" +
  "|[0-9A-Fa-f]{4}((\\.[0-9A-Fa-f]{4}){2}|(\\.[0-9A-Fa-f]{4}){3}|(\\.[0-9A-Fa-f]{4}){9}))"

/** Parses an interface's hardware address. Like the kernel, refuses multicast addresses, and 6 bytes of zeros. */
function parseOwnMac(text: string): Uint8Array | undefined {
  const mac = parseMac(text)
  const isOwn = mac?.length !== 6 || (((mac[0] ?? 0) & 1) === 0 && mac.some((byte) => byte !== 0))
  return isOwn ? mac : undefined
}

/** A hardware address as text. */
export const macAddress = {
  kind: "text",
  expected: "a hardware address",
  check: parseOwnMac,
  form: "a hardware address of one interface such as 0a:58:0a:01:02:03",
  pattern: `^${MAC_PATTERN}$`,
} as const

/** A hardware address; "" means no address. */
export const macAddressOrNone = {
  ...macAddress,
  check: (text: string) => (text === "" ? text : parseOwnMac(text)),
  pattern: `^(${MAC_PATTERN})?$`,
} as const

/** The path of a file or directory; "" means no path. */
export const pathOrNone = {
  kind: "text",
  expected: "a path",
  check: (text: string) => (text.includes("\0") ? undefined : text),
  form: "a path without NUL bytes",
  pattern: "^[^\\u0000]*$",
} as const

/** `ETH_MIN_MTU` and `ETH_MAX_MTU`, <linux/if_ether.h>: the kernel's limits for a veth or a bridge. */
const MIN_MTU = 68
const MAX_MTU = 65535

/** A configured MTU. If it is 0 or less, the kernel chooses the MTU; see `linkMtu`. */
export const mtuOrNone = {
  kind: "integer",
  min: -(2 ** 31),
  max: MAX_MTU,
  default: 0,
  expected: `0, or a number from ${MIN_MTU} to ${MAX_MTU}`,
} as const

/** The MTU of an interface on a master. Its limit is the master's MTU, which `requireMtuOfParent` checks. */
export const mtuOnMaster = { ...mtuOrNone, max: 2 ** 31 - 1 } as const

/** Returns the keys of a table, such as the modes of a kind of link, as the values of a choice. */
export function namesOf<T extends object>(table: T): readonly (keyof T & string)[] {
  return Object.keys(table) as (keyof T & string)[]
}

const text = (expected: string) => ({ kind: "text", expected }) as const

/** The name resolution settings for a result. */
export const dns = {
  kind: "object",
  fields: {
    nameservers: { kind: "list", of: text("an address") },
    domain: text("a domain name"),
    search: { kind: "list", of: text("a domain name") },
    options: { kind: "list", of: text("an option") },
  },
} as const

const withMac = { kind: "object", fields: { mac: macAddress } } as const

/** The keys that interface plugins share. `readInterfaceKeys` converts them to an `InterfaceConfig`. */
export const interfaceKeys = {
  mtu: mtuOrNone,
  acceptRa: { kind: "boolean" },
  dns,
  ipam: { kind: "object", fields: { type: text("the name of an IPAM plugin") } },
  args: { kind: "object", fields: { cni: withMac } },
  runtimeConfig: withMac,
} as const satisfies Fields

const network = { kind: "text", expected: "a network such as 10.244.0.0/16", check: parseCidr } as const

/** The keys of the masquerade. Without `ipMasqBackend`, the kernel's features decide the backend. */
export const masqueradeKeys = {
  ipMasq: off,
  ipMasqBeyond: { kind: "list", of: network, default: [] },
  ipMasqBackend: { kind: "choice", of: ["nftables", "iptables"], expected: '"nftables" or "iptables"' },
} as const satisfies Fields

/** The values of the keys that interface plugins share. */
export interface InterfaceConfig {
  mtu: number | undefined
  /** The MAC of the container's interface, in lower case. */
  mac: string | undefined
  /** Whether the interface accepts routes and addresses from router advertisements; undefined if not configured. */
  acceptRa?: boolean | undefined
  /**
   * The DNS settings that replace the IPAM plugin's. If undefined, the IPAM plugin's stay; an empty object removes
   * them.
   */
  dns: Dns | undefined
  /** The name of the IPAM plugin; undefined for an attachment without addresses. */
  ipam: string | undefined
}

type InterfaceKeys = Infer<typeof interfaceKeys> & { mac?: string | undefined }

/** Reports whether a verb is DEL or GC, for which a wrong value in a configuration counts as absent. */
export function isCleanup(verb: string): boolean {
  return verb === "DEL" || verb === "GC"
}

/**
 * Converts `interfaceKeys`. Throws code 7 for an invalid MTU and code 4 for invalid `CNI_ARGS`, unless `verb` is a
 * cleanup.
 */
export function readInterfaceKeys(
  read: InterfaceKeys,
  network: NetworkConfig,
  { verb, args }: { verb: string; args: string },
): InterfaceConfig {
  const lenient = isCleanup(verb)
  return {
    mtu: linkMtu(read.mtu, lenient),
    mac: requestedMac(read, args, lenient),
    acceptRa: read.acceptRa,
    dns: ownDns(read.dns, network.dns),
    ipam: read.ipam?.type || undefined,
  }
}

/**
 * Returns a link's MTU, or undefined if the kernel chooses it. Throws code 7 if the kernel refuses `mtu`, unless
 * `lenient`.
 */
function linkMtu(mtu: number, lenient: boolean): number | undefined {
  if (mtu <= 0) return undefined
  if (mtu >= MIN_MTU) return mtu
  if (lenient) return undefined
  throw invalidConfig("mtu", mtuOrNone.expected, mtu)
}

/**
 * Returns `dns`, the settings that replace the IPAM plugin's, if the configuration sets one of `fields`; otherwise
 * undefined. An empty list counts as set and removes the IPAM plugin's list. An empty domain counts as absent.
 */
export function ownDns(fields: InterfaceKeys["dns"] = {}, dns: Dns = {}): Dns | undefined {
  return (fields.nameservers ?? fields.search ?? fields.options ?? (fields.domain || undefined)) ? dns : undefined
}

/**
 * Returns the requested hardware address of the container's interface: `runtimeConfig.mac`, else `args.cni.mac`, else
 * `MAC` in `CNI_ARGS`, else `mac`; `undefined` if all are absent. Throws code 4 for unreadable `CNI_ARGS`, unless
 * `lenient`.
 */
export function requestedMac(
  { runtimeConfig, args, mac: own = "" }: Pick<InterfaceKeys, "runtimeConfig" | "args" | "mac">,
  cniArgs: string,
  lenient = false,
): string | undefined {
  const fromArgs = macOfArgs(cniArgs, lenient)
  const asked = runtimeConfig?.mac ?? args?.cni?.mac
  const mac = asked === undefined ? (fromArgs ?? parseMac(own)) : parseMac(asked)
  return mac && formatMac(mac)
}

function macOfArgs(args: string, lenient: boolean): Uint8Array | undefined {
  try {
    return readCniArgs(args, { MAC: parseOwnMac }).MAC
  } catch (error) {
    if (lenient && error instanceof CniError) return undefined
    throw error
  }
}

function checkInterfaceName(name: string): string | undefined {
  try {
    validateInterfaceName(name)
    return name
  } catch {
    return undefined
  }
}
