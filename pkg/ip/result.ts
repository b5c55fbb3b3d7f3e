import { type Cidr, CniError, Code, parseCidr, parseIp, type Result, type Route, sameBytes } from "../types/mod.ts"

/** An address of a result as bytes. */
export interface ResultAddress extends Cidr {
  gateway?: Uint8Array
}

/** The addresses of a result as bytes, with their gateways. They were checked when the result was read. */
export function addressesOf(result: Pick<Result, "ips">): ResultAddress[] {
  const addresses: ResultAddress[] = []
  for (const { address, gateway } of result.ips) {
    const cidr = required(parseCidr(address), address)
    addresses.push(gateway === undefined ? cidr : { ...cidr, gateway: required(parseIp(gateway), gateway) })
  }
  return addresses
}

/** A route's destination as bytes. */
export function destinationOf(route: Route): Cidr {
  return required(parseCidr(route.dst), route.dst)
}

/** A gateway's bytes; undefined for none, and for the unspecified address, by which some say "none". */
export function gatewayOf(text: string | undefined): Uint8Array | undefined {
  const gateway = text === undefined ? undefined : required(parseIp(text), text)
  return gateway && sameBytes(gateway, new Uint8Array(gateway.length)) ? undefined : gateway
}

function required<T>(value: T | undefined, text: string): T {
  if (value === undefined) throw new CniError(Code.Decoding, `Cannot use "${text}" of the result: it is no address`)
  return value
}
