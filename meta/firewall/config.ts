import { type Fields, invalidConfig, isCleanup, type KeyDoc, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"
import { isOwnChain } from "./nftables/layout.ts"

export const backends = ["nftables", "iptables", "firewalld"] as const

export type Backend = (typeof backends)[number]

/** Ordered from the weakest to the strictest. */
export const policies = ["open", "same-bridge", "isolated"] as const

/** Which traffic from other containers reaches a container. */
export type Policy = (typeof policies)[number]

/** The keys of its configuration. */
export const firewallFields = {
  backend: { kind: "choice", of: ["", ...backends], expected: '"nftables", "iptables" or "firewalld"', default: "" },
  iptablesAdminChainName: {
    kind: "text",
    expected: "the name of a chain",
    check: checkChainName,
    form: 'the name of a chain: at most 28 letters, digits, "_", "." and "-"',
    pattern: "^([A-Za-z0-9_][A-Za-z0-9_.-]{0,27})?$",
    default: "",
  },
  firewalldZone: {
    kind: "text",
    expected: "the name of a zone",
    check: checkZoneName,
    form: "the name of a zone: at most 64 characters, without control characters",
    pattern: "^[^\\u0000-\\u001f\\u007f]{0,64}$",
    default: "",
  },
  ingressPolicy: {
    kind: "choice",
    of: ["", ...policies],
    expected: '"open", "same-bridge" or "isolated"',
    default: "",
  },
} as const satisfies Fields

/** The documentation of the keys: the table on the page, the schema and the manual page are made from it. */
export const firewallKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["backend"],
    default: "firewalld if it is running, otherwise nftables",
    meaning: "`nftables`, `iptables` or `firewalld`",
  },
  {
    paths: ["ingressPolicy"],
    default: "`open`",
    meaning:
      "`same-bridge`: drops traffic between bridges with a policy; `isolated`: also between containers of the bridge",
  },
  {
    paths: ["iptablesAdminChainName"],
    default: "`CNI-ADMIN`",
    meaning:
      "the chain with the administrator's rules, in either packet filter; at most 28 letters, digits, `_`, `.` and `-`",
  },
  {
    paths: ["firewalldZone"],
    default: "`trusted`",
    meaning: "the zone of firewalld to which addresses are added as sources",
  },
]

/** The checked configuration. */
export type FirewallConfig = ReturnType<typeof parseFirewallConfig>

/** Reads the configuration. For DEL and GC a wrong value counts as absent. Throws code 7 naming the key. */
export function parseFirewallConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const read = parseConfig(firewallFields, raw, isCleanup(verb))
  const iptablesAdminChainName = read.iptablesAdminChainName || "CNI-ADMIN"
  if (isOwnChain(iptablesAdminChainName))
    throw invalidConfig("iptablesAdminChainName", "a name of its own", iptablesAdminChainName)
  return {
    /** Undefined: firewalld if it is running, otherwise nftables, else iptables. */
    backend: read.backend || undefined,
    /** The chain of the administrator's rules, in each packet filter. */
    iptablesAdminChainName,
    /** The firewalld zone that gets the addresses as sources. */
    firewalldZone: read.firewalldZone || "trusted",
    ingressPolicy: read.ingressPolicy || "open",
  }
}

/** `iptables` accepts no longer names; upstream's chains and built-in chains would form loops. */
function checkChainName(name: string): string | undefined {
  return /^([A-Za-z0-9_][A-Za-z0-9_.-]{0,27})?$/.test(name) ? name : undefined
}

/** firewalld accepts even fewer names; other characters must not get into messages and notes. */
function checkZoneName(name: string): string | undefined {
  return name.length <= 64 && !/\p{Cc}/u.test(name) ? name : undefined
}
