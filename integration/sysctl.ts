import type { Namespace } from "./namespace.ts"

/** The value of a sysctl in a namespace, like `sysctl -n`; `key` is a path, like "net/ipv4/ip_forward". */
export async function readSysctl(namespace: Namespace, key: string): Promise<string> {
  return (await namespace.exec("cat", [`/proc/sys/${key}`])).stdout.trim()
}

/** Sets a sysctl in a namespace, like `sysctl -w`; `key` is a path, like "net/ipv4/ip_forward". */
export async function writeSysctl(namespace: Namespace, key: string, value: string): Promise<void> {
  await namespace.exec("tee", [`/proc/sys/${key}`], { input: value })
}
