/** "error": an ADD fails or has a wrong result. "warning": an unintended effect is possible. "info": a remark. */
export type Severity = "error" | "warning" | "info"

/** All rules with the severity of their findings. docs/lint.md has a section for each rule. */
export const rules = {
  "json-syntax": "error",
  "duplicate-key": "warning",
  "unknown-key": "warning",
  "key-case": "info",
  "wrong-value": "error",
  placeholder: "warning",
  "missing-key": "error",
  refused: "error",
  "wrong-extension": "error",
  "reserved-key": "warning",
  "no-effect": "warning",
  "unknown-version": "error",
  "missing-version": "warning",
  "old-version": "info",
  "chain-order": "error",
  "ipam-in-chain": "error",
  "second-interface": "error",
  "missing-capability": "warning",
  "unused-capability": "warning",
  "requested-address": "warning",
  "shared-mac": "warning",
  "tuning-interface": "warning",
  "no-addresses": "warning",
  "no-default-route": "warning",
  "no-gateway": "warning",
  "unreachable-ports": "warning",
  "one-per-node": "info",
  "bad-range": "error",
  "range-overlap": "error",
  "small-range": "warning",
  "gateway-outside": "warning",
  "route-gateway": "warning",
  "route-host-bits": "warning",
  "shared-range": "info",
  "network-overlap": "error",
  "service-overlap": "error",
  "file-order": "info",
  "shadowed-network": "error",
  "ignored-file": "warning",
  "node-route": "error",
  "advertised-route": "info",
  "plugin-missing": "error",
  "plugin-version": "error",
  "no-master": "error",
  "master-mtu": "error",
  "no-resolv-conf": "error",
} as const satisfies Record<string, Severity>

export type Rule = keyof typeof rules

/** The names of all rules, in the order of docs/lint.md. */
export const ruleNames = Object.keys(rules) as Rule[]
