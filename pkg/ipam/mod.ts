/**
 * An interface plugin's dealings with its IPAM plugin.
 *
 * @example
 * import { ipam } from "../../pkg/ipam/mod.ts"
 * const leased = undo.step("lease an address", () => ipam.add(call), () => ipam.del(call))
 */

export { expectedIps } from "./expected.ts"
export { type IpamCaller, ipam } from "./ipam.ts"
