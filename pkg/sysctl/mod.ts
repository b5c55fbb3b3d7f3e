/**
 * Kernel settings in /proc/sys. Those under "net" are settings of the thread's network namespace.
 *
 * @example
 * sandbox.run(() => writeSysctl(`net/ipv4/conf/${ifName}/arp_notify`, "1"))
 */
export * from "./sysctl.ts"
