import type { Node } from "./document.ts"

/** Templates' placeholders: `${IFACE}`, `$master`, `<iface>`, `__BRIDGE__`, `{{ .Device }}`, `%s`, `@IFACE@`. */
const placeholder = /\$\{[^}]+\}|\$\([^)]+\)|^\$[A-Za-z_]\w*$|<[^<>]+>|__\w+?__|\{\{.*\}\}|%[sdvq]|^@\w+@$/

export function isPlaceholder(text: string): boolean {
  return placeholder.test(text)
}

export function hasPlaceholder(node: Node): boolean {
  if (node.kind === "list") return node.items.some(hasPlaceholder)
  if (node.kind === "object") return node.members.some(({ value }) => hasPlaceholder(value))
  return typeof node.value === "string" && isPlaceholder(node.value)
}
