/**
 * Kernel settings in /proc/sys. Those under "net" belong to the namespace that the thread is in.
 *
 * @example
 * sandbox.run(() => writeSysctl(`net/ipv4/conf/${ifName}/arp_notify`, "1"))
 */
export * from "./sysctl.ts"
