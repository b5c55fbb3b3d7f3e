import { type Fields, invalidConfig, type KeyDoc, off, parseConfig } from "../../pkg/config/mod.ts"
import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { CniError, Code, isJsonObject, type JsonObject, member } from "../../pkg/types/mod.ts"
import { toHex } from "./protocol/bytes.ts"
import { encodeUserClass } from "./protocol/options4.ts"

const text = { kind: "text", expected: "a text" } as const
const word = { ...text, default: "" } as const
const option = { kind: "object", fields: { option: word, value: word, fromArg: word } } as const
const request = { kind: "object", fields: { option: word, skipDefault: off } } as const
const on = { kind: "boolean", default: true } as const

export const dhcpFields = {
  ipam: {
    kind: "object",
    fields: {
      daemonSocketPath: word,
      provide: { kind: "list", of: option, default: [] },
      request: { kind: "list", of: request, default: [] },
      priority: { kind: "integer", min: 0, max: 2 ** 31 - 1, default: 0 },
      userClass: { kind: "list", of: text, default: [], expected: "a list of strings" },
      useOptions: on,
      broadcast: off,
      probe: off,
      dhcpv6: off,
      timeout: { kind: "integer", min: 1, max: 3600, expected: "seconds, from 1 to 3600" },
    },
    required: true,
    expected: 'the keys of the IPAM plugin, at least {"type": "dhcp"}',
  },
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const dhcpKeyDocs: readonly KeyDoc[] = [
  {
    keys: "`daemonSocketPath`",
    paths: ["ipam.daemonSocketPath"],
    type: "path",
    default: "`/run/cni/dhcp.sock`",
    meaning: "the daemon's socket",
  },
  {
    keys: "`provide`",
    paths: ["ipam.provide"],
    type: "list of `option`, `value`, `fromArg`",
    default: "none",
    meaning: "options sent to DHCPv4 servers: the bytes of `value`, or of the value of `fromArg` in `CNI_ARGS`",
  },
  {
    keys: "`request`",
    paths: ["ipam.request"],
    type: "list of `option`, `skipDefault`",
    default: "121, 3, 1, 6, 15, 26, 42, 119",
    meaning: "options to request, placed before the default ones; with `skipDefault`, they replace the default ones",
  },
  {
    keys: "`priority`",
    paths: ["ipam.priority"],
    type: "number",
    default: "0",
    meaning: "the metric of every route, unless the value is 0",
  },
  {
    keys: "`userClass`",
    paths: ["ipam.userClass"],
    type: "list of texts",
    default: "none",
    meaning: "option 77 in the format of RFC 3004, each class with its length; `provide` of 77 sends plain bytes",
  },
  {
    keys: "`useOptions`",
    paths: ["ipam.useOptions"],
    type: "switch",
    default: "on",
    meaning:
      "whether name servers, domains and MTU of the lease are used; if off, the plugin requests and uses the same options as upstream",
  },
  {
    keys: "`probe`",
    paths: ["ipam.probe"],
    type: "switch",
    default: "off",
    meaning: "the plugin probes an IPv4 address by ARP before it uses it, and declines it if another host answers",
  },
  {
    keys: "`broadcast`",
    paths: ["ipam.broadcast"],
    type: "switch",
    default: "off",
    meaning: "sets the broadcast flag, so that servers broadcast their answers",
  },
  {
    keys: "`dhcpv6`",
    paths: ["ipam.dhcpv6"],
    type: "switch",
    default: "off",
    meaning: "also leases an IPv6 address, with the gateway of router advertisements; ADD waits for both",
  },
  {
    keys: "`timeout`",
    paths: ["ipam.timeout"],
    type: "seconds, 1 to 3600",
    default: "the daemon's",
    meaning: "how long ADD waits for a lease",
  },
]

export const DEFAULT_SOCKET = "/run/cni/dhcp.sock"

/** The maximum of bytes in a DHCPv4 option, whose length is one byte. */
const OPTION_BYTES_MAX = 255
/** The maximum of bytes in a client identifier without its type byte. */
const CLIENT_ID_BYTES_MAX = OPTION_BYTES_MAX - 1

/** The codes of options that have names in configurations, <https://www.iana.org/assignments/bootp-dhcp-parameters>. */
const optionNames: Readonly<Record<string, number>> = {
  "dhcp-client-identifier": 61,
  "subnet-mask": 1,
  routers: 3,
  "host-name": 12,
  "user-class": 77,
  "vendor-class-identifier": 60,
}
const USER_CLASS = 77
/** The code of the client identifier. The client sends one in every message, by default that of `clientIdOf`. */
export const CLIENT_IDENTIFIER = 61

/** The options that upstream's plugin requests by default. */
const upstreamRequests = [3, 1]
/**
 * Further options that this plugin requests: name servers, domain, MTU, time servers, search list (RFC 2132, 3397). The
 * code for classless routes precedes them in the request (RFC 3442).
 */
const ourRequests = [6, 15, 26, 42, 119]
const CLASSLESS_ROUTES = 121
/** The options that upstream's client library requests for an empty list: mask, routers, domain, name servers. */
const fallbackRequests = [1, 3, 15, 6]

export type DhcpConfig = ReturnType<typeof parseDhcpConfig>

/**
 * Reads the configuration and `CNI_ARGS`. Throws code 7 with the key. With `lenient`, for DEL and GC, an invalid value
 * counts as absent instead. Ignores text in `CNI_ARGS` that is not a pair, like upstream.
 */
export function parseDhcpConfig(raw: JsonObject, args: string, lenient = false) {
  const ipam = attempt(
    lenient,
    () => parseConfig(dhcpFields, { ipam: socketOf(raw) }).ipam,
    () => parseConfig(dhcpFields, raw).ipam,
  )
  const values = readArgs(args)
  const provide: readonly (readonly [number, string])[] = attempt(lenient, none, () => [
    ...ipam.provide.flatMap((each, at) => provideOption(each, `ipam.provide[${at}]`, values)),
    ...userClassOption(ipam.userClass),
  ])
  return {
    daemonSocketPath: ipam.daemonSocketPath || DEFAULT_SOCKET,
    /** The DHCPv4 options to send: codes, and bytes as hexadecimal digits. */
    provide,
    request: attempt(lenient, none, () => requestList(ipam.request, ipam.useOptions)),
    /** The metric of all routes in the result; 0 to leave the servers' metrics unchanged. */
    priority: ipam.priority,
    /** Whether the result has the server's DNS settings and MTU. If not, it has only the options that upstream uses. */
    useOptions: ipam.useOptions,
    broadcast: ipam.broadcast,
    /** Whether to probe for an address by ARP before use. */
    probe: ipam.probe,
    dhcpv6: ipam.dhcpv6,
    /** The timeout of ADD in milliseconds; undefined for the daemon's default. */
    timeoutMs: ipam.timeout === undefined ? undefined : ipam.timeout * 1000,
  }
}

/** Returns the path of the daemon's socket, the only key that a cleanup needs. */
function socketOf(raw: JsonObject): JsonObject {
  const ipam = member(raw, "ipam")
  const path = isJsonObject(ipam) ? member(ipam, "daemonSocketPath") : undefined
  return typeof path === "string" ? { daemonSocketPath: path } : {}
}

const none = () => []

/** Returns the value of `read`. If it throws `CniError` and `lenient` is set, returns the value of `otherwise`. */
function attempt<T>(lenient: boolean, otherwise: () => T, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (lenient && error instanceof CniError) return otherwise()
    throw error
  }
}

/**
 * Returns the client identifier of an attachment in hexadecimal, with its type byte. It equals upstream's, so a
 * container keeps its address if the node changes from one suite to the other.
 */
export function clientIdOf(key: string): string {
  return `00${toHex(encodeUtf8(key).subarray(0, CLIENT_ID_BYTES_MAX))}`
}

/** Returns the client identifier that the configuration sets, or undefined if it sets none. */
export function ownClientId({ provide }: DhcpConfig): string | undefined {
  return provide.find(([code]) => code === CLIENT_IDENTIFIER)?.[1]
}

function provideOption(
  { option, value, fromArg }: { option: string; value: string; fromArg: string },
  key: string,
  args: ReadonlyMap<string, string>,
): [number, string][] {
  const code = optionCode(option, key)
  const bytes = encodeUtf8(args.get(fromArg) ?? value)
  if (bytes.length > OPTION_BYTES_MAX) throw tooLong(option)
  return bytes.length === 0 ? [] : [[code, toHex(bytes)]]
}

function userClassOption(classes: readonly string[]): [number, string][] {
  if (classes.length === 0) return []
  if (classes.includes("")) throw invalidConfig("ipam.userClass", "non-empty texts", "")
  const bytes = encodeUserClass(classes)
  if (bytes.length > OPTION_BYTES_MAX) throw tooLong("user-class")
  return [[USER_CLASS, toHex(bytes)]]
}

function requestList(list: readonly { option: string; skipDefault: boolean }[], useOptions: boolean): number[] {
  const asked = list.flatMap(({ option }, at) => (option === "" ? [] : [optionCode(option, `ipam.request[${at}]`)]))
  const skipsDefault = list.some(({ skipDefault }) => skipDefault)
  // RFC 3442 requires classless routes before routers.
  const more = useOptions ? [CLASSLESS_ROUTES, ...upstreamRequests, ...ourRequests] : upstreamRequests
  const codes = [...new Set(skipsDefault ? asked : [...asked, ...more])]
  return codes.length > 0 ? codes : fallbackRequests
}

/** Returns the code of an option, given its name or its code as text. */
function optionCode(name: string, key: string): number {
  const named = Object.hasOwn(optionNames, name) ? optionNames[name] : undefined
  if (named !== undefined) return named
  if (/^\d{1,3}$/.test(name) && Number(name) <= 255) return Number(name)
  const names = Object.keys(optionNames).join(", ")
  throw invalidConfig(`${key}.option`, `a number from 0 to 255, or one of ${names}`, name)
}

function tooLong(option: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, `value too long for option ${option}`, {
    details: `an option of DHCPv4 has ${OPTION_BYTES_MAX} bytes at most`,
  })
}

function readArgs(args: string): Map<string, string> {
  const values = new Map<string, string>()
  for (const pair of args.split(";")) {
    const sign = pair.indexOf("=")
    if (sign > 0) values.set(pair.slice(0, sign), pair.slice(sign + 1))
  }
  return values
}
