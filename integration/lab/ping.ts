import type { Namespace } from "./namespace.ts"

/** Whether one echo request from inside the namespace to an IPv4 or IPv6 address is answered within `deadlineMs`. */
export async function ping(from: Namespace, address: string, deadlineMs = 1000): Promise<boolean> {
  const seconds = String(Math.ceil(deadlineMs / 1000))
  const { exitCode } = await from.tryExec("ping", ["-n", "-q", "-c", "1", "-W", seconds, address])
  return exitCode === 0
}
