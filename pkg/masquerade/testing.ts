/** Helpers for the tests of the masquerade. `mod.ts` does not export them. */
import type { Netfilter } from "../nftables/mod.ts"
import type { Filter } from "../rules/mod.ts"
import { AF_INET, type Cidr, type Family, type Owner } from "../types/mod.ts"
import { Undo } from "../undo/mod.ts"
import { NftablesMasquerade } from "./nftables.ts"
import { UpstreamMasquerade } from "./upstream.ts"

const filterOf = (socket: Netfilter): Filter<Netfilter> => ({ socket, hasTable: () => true, forgetTables() {} })
const on = (socket: Netfilter) => new NftablesMasquerade(filterOf(socket))
const upstreamOn = (socket: Netfilter) => new UpstreamMasquerade(filterOf(socket))
const anAddress = (family: Family) => ({ ip: new Uint8Array(family === AF_INET ? 4 : 16), prefix: 8 })

export const addMasquerade = (socket: Netfilter, owner: Owner, addresses: readonly Cidr[]) =>
  on(socket).add({ owner, addresses }, new Undo(() => {}))
export const canMasquerade = (socket: Netfilter, family: Family) =>
  on(socket).isUsable({ addresses: [anAddress(family)] })
export const checkMasquerade = (socket: Netfilter, owner: Owner, addresses: readonly Cidr[]) =>
  on(socket).check({ owner, addresses })
export const deleteMasquerade = (socket: Netfilter, owner: Owner) => on(socket).remove(owner)
export const gcMasquerade = (socket: Netfilter, network: string, valid: readonly Owner[]) =>
  on(socket).gc(network, valid)
export const checkUpstreamMasquerade = (socket: Netfilter, owner: Owner, addresses: readonly Cidr[]) =>
  upstreamOn(socket).check({ owner, addresses })
export const deleteUpstreamMasquerade = (socket: Netfilter, owner: Owner) => upstreamOn(socket).remove(owner)
