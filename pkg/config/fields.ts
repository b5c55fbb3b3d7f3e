import * as v from "valibot"
import { parseIp, parseMac, validateInterfaceName } from "../types/mod.ts"

/** A switch that is off unless the configuration says otherwise. */
export const off = v.optional(v.boolean("true or false"), false)

/** A whole number within limits; `what` says so in errors, as in "0 to 4094". */
export function integer(min: number, max: number) {
  const what = `a whole number from ${min} to ${max}`
  return v.pipe(v.number(what), v.integer(what), v.minValue(min, what), v.maxValue(max, what))
}

/** An interface name that the kernel takes: 1 to 15 bytes, no "/", ":" or white space. */
export const interfaceName = v.pipe(
  v.string("an interface name"),
  v.check(isInterfaceName, "an interface name of 1 to 15 bytes without '/', ':' or white space"),
)

/** A hardware address as text. */
export const macAddress = v.pipe(
  v.string("a hardware address"),
  v.check((text) => parseMac(text) !== undefined, "a hardware address such as 0a:58:0a:01:02:03"),
)

/** An IP address as text. */
export const ipAddress = v.pipe(
  v.string("an IP address"),
  v.check((text) => parseIp(text) !== undefined, "an IP address such as 10.1.2.3 or fd00::3"),
)

/** Name resolution as results carry it. */
export const dnsFields = v.object({
  nameservers: v.optional(v.array(v.string("an address"), "a list")),
  domain: v.optional(v.string("a domain name")),
  search: v.optional(v.array(v.string("a domain name"), "a list")),
  options: v.optional(v.array(v.string("an option"), "a list")),
})

function isInterfaceName(name: string): boolean {
  try {
    validateInterfaceName(name)
    return true
  } catch {
    return false
  }
}
