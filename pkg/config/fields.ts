import { parseMac, validateInterfaceName } from "../types/mod.ts"

/** A switch that is off unless the configuration says otherwise. */
export const off = { kind: "boolean", default: false } as const

/** An interface name that the kernel takes: 1 to 15 bytes, no "/", ":" or white space. */
export const interfaceName = {
  kind: "text",
  expected: "an interface name",
  check: checkInterfaceName,
  form: "an interface name of 1 to 15 bytes without '/', ':' or white space",
} as const

/** A hardware address as text. */
export const macAddress = {
  kind: "text",
  expected: "a hardware address",
  check: parseMac,
  form: "a hardware address such as 0a:58:0a:01:02:03",
} as const

/** Name resolution as results carry it. */
export const dns = {
  kind: "object",
  fields: {
    nameservers: { kind: "list", of: { kind: "text", expected: "an address" } },
    domain: { kind: "text", expected: "a domain name" },
    search: { kind: "list", of: { kind: "text", expected: "a domain name" } },
    options: { kind: "list", of: { kind: "text", expected: "an option" } },
  },
} as const

function checkInterfaceName(name: string): string | undefined {
  try {
    validateInterfaceName(name)
    return name
  } catch {
    return undefined
  }
}
