/**
 * The masquerade of containers: packets that leave their network get the host's address. By nf_tables, or by iptables
 * with upstream's chains, on top of the rooms for these two.
 *
 * @example
 * using filter = PacketFilter.find()
 * new Masquerade(filter).add({ owner, addresses: [{ ip, prefix: 16 }] }, config.ipMasqBackend, undo)
 */
export { Masquerade } from "./masquerade.ts"
