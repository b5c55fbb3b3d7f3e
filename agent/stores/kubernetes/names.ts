import { createHash } from "node:crypto"
import { parseIp } from "../../../pkg/types/mod.ts"
import type { Kind } from "../../records.ts"

/** The longest name that an object of Kubernetes may have. */
const longestName = 253

/** RFC 1123, as Kubernetes has it: a label, and labels with dots between them. */
const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

/**
 * The name of the object that keeps a record: "pods-10.64.3.0-26", "pods-fd00-0064-0000-0000-0000-0000-0000-0000-80", "node-1",
 * "db.mysql-0.eth0", "pods.node-1". Two keys never have one name. Where a key makes no name that Kubernetes takes, the name is a
 * digest of it. The key itself is read from the record.
 */
export function objectName(kind: Kind, key: string): string {
  const name = readableName(kind, key.split("/"))
  if (name !== undefined && subdomain.test(name) && name.length <= longestName) return name
  return `sha256-${createHash("sha256").update(key).digest("hex")}`
}

function readableName(kind: Kind, parts: readonly string[]): string | undefined {
  const [first = "", second = "", third = ""] = parts
  switch (kind) {
    case "registry":
    case "node":
      return parts.length === 1 ? first : undefined
    case "block":
      return label.test(first) ? blockName(first, second, third) : undefined
    // A label has no dot: the first dot ends the namespace or pool, and the last one begins the interface.
    case "fixed":
      return label.test(first) && label.test(third) ? `${first}.${second}.${third}` : undefined
    case "want":
      return label.test(first) ? `${first}.${second}` : undefined
  }
}

/** All groups of an IPv6 address in full: with "::" a part of the pool's name might pass for a group. */
function blockName(pool: string, address: string, length: string): string | undefined {
  const ip = parseIp(address)
  if (!ip) return undefined
  if (ip.length === 4) return `${pool}-${address}-${length}`
  const digits = Array.from(ip, (byte) => byte.toString(16).padStart(2, "0")).join("")
  return `${pool}-${digits.match(/.{4}/g)?.join("-")}-${length}`
}
