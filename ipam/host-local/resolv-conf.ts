import type { Dns } from "../../pkg/types/mod.ts"

/**
 * Reads what resolv.conf(5) says about name servers, domain, search list and options. Values are not checked; other
 * keywords are passed over.
 */
export function parseResolvConf(text: string): Dns {
  const dns: Required<Pick<Dns, "nameservers" | "search" | "options">> & Dns = {
    nameservers: [],
    search: [],
    options: [],
  }
  for (const line of text.split("\n")) {
    const [keyword = "", ...values] = line.trim().split(/\s+/)
    const [value] = values
    if (value === undefined || /^[#;]/.test(keyword)) continue
    if (keyword === "nameserver") dns.nameservers.push(value)
    else if (keyword === "domain") dns.domain = value
    else if (keyword === "search") dns.search.push(...values)
    else if (keyword === "options") dns.options.push(...values)
  }
  return dns
}
