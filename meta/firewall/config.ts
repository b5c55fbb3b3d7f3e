import { type Fields, invalidConfig, isCleanup, type KeyDoc, parseConfig } from "../../pkg/config/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import type { NetworkConfig } from "../../pkg/types/mod.ts"
import { isOwnChain } from "./nftables/layout.ts"

export const backends = ["nftables", "iptables", "firewalld"] as const

export type Backend = (typeof backends)[number]

/** The policies, from the weakest to the strictest. */
export const policies = ["open", "same-bridge", "isolated"] as const

/** A policy: which traffic from other containers reaches a container. */
export type Policy = (typeof policies)[number]

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

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
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
      "`same-bridge` drops traffic between bridges that have a policy; `isolated` also drops traffic between containers of one bridge",
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
    meaning: "the firewalld zone that gets the containers' addresses as sources",
  },
]

export type FirewallConfig = ReturnType<typeof parseFirewallConfig>

/** Parses the configuration. For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key. */
export function parseFirewallConfig(_network: NetworkConfig, { verb, raw }: ConfigCall) {
  const read = parseConfig(firewallFields, raw, isCleanup(verb))
  const iptablesAdminChainName = read.iptablesAdminChainName || "CNI-ADMIN"
  if (isOwnChain(iptablesAdminChainName))
    throw invalidConfig("iptablesAdminChainName", "a name that no built-in chain has", iptablesAdminChainName)
  return {
    /** Undefined chooses firewalld if it runs, otherwise nftables if the kernel supports it, else iptables. */
    backend: read.backend || undefined,
    /** The chain with the administrator's rules. Both packet filters use this name. */
    iptablesAdminChainName,
    /** The firewalld zone that gets the addresses as sources. */
    firewalldZone: read.firewalldZone || "trusted",
    ingressPolicy: read.ingressPolicy || "open",
  }
}

/** Checks that `iptables` accepts the name of a chain, which limits its length and characters. */
function checkChainName(name: string): string | undefined {
  return /^([A-Za-z0-9_][A-Za-z0-9_.-]{0,27})?$/.test(name) ? name : undefined
}

/** Checks the name of a zone for control characters, which would spoil messages. firewalld checks the rest. */
function checkZoneName(name: string): string | undefined {
  return name.length <= 64 && !/\p{Cc}/u.test(name) ? name : undefined
}
