import type { Dns } from "../types/mod.ts"

/** `dns` as a schema has read it: members that are absent are undefined. */
type DnsFields = { [K in keyof Dns]?: Readonly<Dns[K]> | undefined }

/**
 * The DNS that a configuration answers instead of the IPAM plugin's, `dns` being what is not empty of it; undefined when it
 * leaves that to the IPAM plugin. An empty list is a member like any other: it takes away what the IPAM plugin says. An
 * empty domain is none.
 */
export function ownDns(fields: DnsFields = {}, dns: Dns = {}): Dns | undefined {
  return (fields.nameservers ?? fields.search ?? fields.options ?? (fields.domain || undefined)) ? dns : undefined
}
