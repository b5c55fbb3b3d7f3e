import { readSysctl, requireSettable, writeSysctl } from "../sysctl/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import { mismatch } from "./check.ts"

const SWITCH = { 4: "net/ipv4/ip_forward", 16: "net/ipv6/conf/all/forwarding" } as const

/**
 * Lets the thread's namespace forward packets of a family, given by an address' length in bytes (4 or 16), like
 * `sysctl -w net.ipv4.ip_forward=1`. Never switched off again: others rely on it. Throws `CniError`.
 */
export function enableForwarding(length: number): void {
  change(length, writeSysctl)
}

/** Throws the `CniError` of `enableForwarding` where that would, and changes nothing. For STATUS. */
export function requireForwarding(length: number): void {
  change(length, requireSettable)
}

function change(length: number, by: (name: string, value: string) => void): void {
  const name = switchOf(length)
  try {
    by(name, "1")
  } catch (cause) {
    throw new CniError(Code.Internal, `Cannot enable forwarding by "${name}"`, { cause })
  }
}

/** Looks whether the thread's namespace forwards packets of a family, as `enableForwarding` left it. Throws `CniError`. */
export function checkForwarding(length: number): void {
  const name = switchOf(length)
  const value = readSysctl(name)
  if (value === "0") throw mismatch(`sysctl "${name}"`, "1", value)
}

function switchOf(length: number): string {
  return length === 4 ? SWITCH[4] : SWITCH[16]
}
