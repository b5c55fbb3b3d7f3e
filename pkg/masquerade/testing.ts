/** What tests of the packet filters' rules are written with. For tests only: the door does not export it. */
export { addMasquerade, canMasquerade, checkMasquerade, deleteMasquerade, gcMasquerade } from "./nftables.ts"
export { checkUpstreamMasquerade, deleteUpstreamMasquerade } from "./upstream.ts"
