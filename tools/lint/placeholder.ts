import type { Node } from "./document.ts"

/**
 * The forms that templates use for a value to fill in: `${IFACE}`, `$master`, `<iface>`, `__BRIDGE__`, `{{ .Device }}`,
 * `%s`, `@IFACE@`.
 */
const placeholder = /\$\{[^}]+\}|\$\([^)]+\)|^\$[A-Za-z_]\w*$|<[^<>]+>|__\w+?__|\{\{.*\}\}|%[sdvq]|^@\w+@$/

/** Whether a text has a placeholder of a template in it. */
export function isPlaceholder(text: string): boolean {
  return placeholder.test(text)
}

/** Whether any text of a tree has a placeholder in it. */
export function hasPlaceholder(node: Node): boolean {
  if (node.kind === "list") return node.items.some(hasPlaceholder)
  if (node.kind === "object") return node.members.some(({ value }) => hasPlaceholder(value))
  return typeof node.value === "string" && isPlaceholder(node.value)
}
