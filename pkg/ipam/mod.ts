/**
 * Functions with which an interface plugin calls its IPAM plugin.
 *
 * @example
 * import { ipam } from "../../pkg/ipam/mod.ts"
 * const leased = ipam.add(call)
 * undo.defer("lease an address", () => ipam.del(call))
 */
export { expectedIps, type IpamCaller, ipam } from "./ipam.ts"
