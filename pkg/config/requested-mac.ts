import { CniError, formatMac, parseMac, readCniArgs } from "../types/mod.ts"

/** Where a hardware address for the container's interface may be asked for, the first first. */
export interface MacRequest {
  /** `runtimeConfig.mac`, the capability. */
  runtimeConfig?: { mac?: string | undefined } | undefined
  /** `args.cni.mac`. */
  args?: { cni?: { mac?: string | undefined } | undefined } | undefined
}

/**
 * The hardware address that the container's interface shall have: `runtimeConfig.mac`, else `args.cni.mac`, else `MAC` in
 * `CNI_ARGS`; undefined when nobody asks for one. Throws code 4 for unreadable `CNI_ARGS`, unless `lenient`.
 */
export function requestedMac(
  { runtimeConfig, args }: MacRequest,
  cniArgs: string,
  lenient = false,
): string | undefined {
  const fromArgs = macOfArgs(cniArgs, lenient)
  const configured = runtimeConfig?.mac ?? args?.cni?.mac
  const mac = configured === undefined ? fromArgs : parseMac(configured)
  return mac && formatMac(mac)
}

function macOfArgs(args: string, lenient: boolean): Uint8Array | undefined {
  try {
    return readCniArgs(args, { MAC: parseMac }).MAC
  } catch (error) {
    if (lenient && error instanceof CniError) return undefined
    throw error
  }
}
