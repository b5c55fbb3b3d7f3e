import { type Answered, type Call, definePlugin, runPlugin } from "../../pkg/skel/mod.ts"
import { CniError, Code, type IpConfig, normalCidr, normalIp } from "../../pkg/types/mod.ts"
import { parseStaticConfig, type StaticConfig, staticFields } from "./config.ts"

export { staticKeyDocs } from "./config.ts"

/** The static plugin: the addresses are those of the configuration, and nothing is recorded. */
export const staticIpam = definePlugin<StaticConfig>({
  name: "static",
  fields: staticFields,
  config: parseStaticConfig,
  add: addStatic,
  check: checkStatic,
  del() {},
  status() {},
  gc() {},
})

function addStatic(call: Call, { ips, routes, dns }: StaticConfig): Answered {
  return call.answer({ interfaces: [], ips: [...ips], routes: [...routes], dns })
}

function checkStatic({ network, ifName }: Call, { ips }: StaticConfig): void {
  if (!network.prevResult) {
    throw new CniError(Code.InvalidNetworkConfig, "Required prevResult missing", {
      details: "CHECK compares the configured addresses with the result of ADD",
    })
  }
  const found = network.prevResult.ips
  const known = new Set(found.flatMap(namesOf))
  const missing = ips.filter((expected) => !known.has(describeIp(expected)))
  if (missing.length === 0) return
  const texts = missing.map(describeIp).join(", ")
  throw new CniError(Code.Internal, `static: Failed to match addr ${texts} on interface ${ifName}`, {
    details: `the result of ADD has ${found.map(describeIp).join(", ") || "no address"}`,
  })
}

/**
 * Returns the texts by which CHECK finds an address among perhaps thousands: the address alone, and with its gateway.
 */
function namesOf({ address, gateway }: IpConfig): string[] {
  const ip = { address: normalCidr(address) ?? address }
  return gateway === undefined
    ? [describeIp(ip)]
    : [ip, { ...ip, gateway: normalIp(gateway) ?? gateway }].map(describeIp)
}

function describeIp({ address, gateway }: IpConfig): string {
  return gateway === undefined ? address : `${address} via ${gateway}`
}

if (import.meta.main) runPlugin(staticIpam)
