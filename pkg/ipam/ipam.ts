import type { Delegate } from "../invoke/mod.ts"
import { CniError, Code, type NetworkConfig, type Result } from "../types/mod.ts"

/** What the functions here need of a plugin's call. */
export interface IpamCaller {
  readonly network: NetworkConfig
  readonly delegate: Delegate
  log(line: string): void
}

/** The IPAM plugin that a configuration names, as a list. */
function pluginsOf({ ipam }: NetworkConfig): string[] {
  return ipam?.type ? [ipam.type] : []
}

/**
 * Has the IPAM plugin reserve addresses; answers what it gave, at least one address. Whenever this throws, the plugin's
 * DEL has been run: nothing stays reserved. Throws the plugin's error, code 7 when none is configured, code 999 when it
 * gave no address.
 */
function add({ network, delegate, log }: IpamCaller): Result {
  const [type] = pluginsOf(network)
  if (type === undefined) {
    throw new CniError(Code.InvalidNetworkConfig, `Cannot get addresses for network "${network.name}": no "ipam.type"`)
  }
  const result = delegate.add(type)
  if (result.ips.length > 0) return result
  try {
    delegate.del(type)
  } catch (error) {
    log(`Cannot release what IPAM plugin "${type}" reserved: ${error instanceof Error ? error.message : String(error)}`)
  }
  throw new CniError(Code.Internal, "IPAM plugin returned missing IP config", {
    details: `plugin "${type}" of network "${network.name}" answered ADD without an address`,
  })
}

/** Has the IPAM plugin, if there is one, check its reservation. Throws its error. */
function check({ network, delegate }: IpamCaller): void {
  for (const type of pluginsOf(network)) delegate.check(type)
}

/** Has the IPAM plugin, if there is one, release the addresses. Throws its error. */
function del({ network, delegate }: IpamCaller): void {
  for (const type of pluginsOf(network)) delegate.del(type)
}

/** Asks the IPAM plugin, if there is one, whether it could serve an ADD. Throws its error. */
function status({ network, delegate }: IpamCaller): void {
  for (const type of pluginsOf(network)) delegate.status(type)
}

/** Has the IPAM plugin, if there is one, release what no valid attachment holds. Throws its error. */
function gc({ network, delegate }: IpamCaller): void {
  for (const type of pluginsOf(network)) delegate.gc(type)
}

/** The functions of this file under one name: `ipam.add(call)`. Not `export * as`, which makes a getter for each at start. */
export const ipam = { add, check, del, status, gc } as const
