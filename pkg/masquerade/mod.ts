/**
 * The masquerade of containers: packets that leave the container's network get the host's address. It is implemented by
 * nf_tables, and by iptables with the chains of the Go plugins.
 *
 * @example
 * using filter = PacketFilter.find()
 * new Masquerade(filter).add({ owner, addresses: [{ ip, prefix: 16 }] }, config.ipMasqBackend, undo)
 */
export { Masquerade } from "./masquerade.ts"
