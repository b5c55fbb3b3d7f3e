import { join } from "node:path"
import type { Namespace } from "../namespace.ts"
import { waitFor } from "../wait-for.ts"

const program = (name: string) => join(import.meta.dir, `${name}.ts`)

export const advertised = "2001:db8:bad:"

/**
 * Sends a router advertisement from a container, and waits until the host has accepted or ignored it. The kernel counts
 * an advertisement before processing it, but processes advertisements in sequence. So this function sends the
 * advertisement twice, and waits until the kernel has counted both.
 */
export async function advertiseRouter(from: Namespace, link: string, host: Namespace): Promise<void> {
  const before = await countAdvertisements(host)
  await from.exec(process.execPath, [program("advertise"), link])
  await waitFor(async () => (await countAdvertisements(host)) >= before + 2, `the advertisement to reach ${host.name}`)
}

async function countAdvertisements(host: Namespace): Promise<number> {
  const { stdout } = await host.exec("sh", ["-c", "cat /proc/net/dev_snmp6/*"])
  const counts = [...stdout.matchAll(/^Icmp6InRouterAdvertisements\s+(\d+)$/gm)]
  return counts.reduce((sum, [, count]) => sum + Number(count), 0)
}

/** The frames that an interface has sent and received so far, as hexadecimal digits. Recording ends with disposal. */
export interface Recording extends AsyncDisposable {
  readonly frames: readonly string[]
}

/**
 * Starts recording an interface's frames. A recorded frame includes its VLAN tag, unless the interface itself inserts
 * the tag.
 */
export async function record(where: Namespace, link: string): Promise<Recording> {
  const command = where.commandLine([process.execPath, program("record"), link])
  const running = Bun.spawn(command, { stdin: "ignore", stdout: "pipe" })
  const reader = running.stdout.pipeThrough(new TextDecoderStream()).getReader()
  await reader.read()
  const frames: string[] = []
  const reading = (async () => {
    let rest = ""
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      const lines = `${rest}${value}`.split("\n")
      rest = lines.pop() ?? ""
      frames.push(...lines)
    }
  })()
  return {
    frames,
    async [Symbol.asyncDispose]() {
      running.kill("SIGKILL")
      await reading
      await running.exited
    },
  }
}

/** Returns the routes and addresses that a namespace configured from router advertisements, as `ip` prints them. */
export async function learnt(where: Namespace): Promise<string> {
  const routes = await where.exec("ip", ["-6", "route", "show", "proto", "ra"])
  const addresses = await where.exec("ip", ["-6", "-o", "address", "show", "dynamic"])
  return `${routes.stdout}${addresses.stdout}`
}

/** Runs a packet capture on an interface until disposal. */
export async function capture(where: Namespace, link: string): Promise<AsyncDisposable> {
  const command = where.commandLine([process.execPath, program("capture"), link])
  const running = Bun.spawn(command, { stdin: "pipe", stdout: "pipe" })
  await running.stdout.getReader().read()
  return {
    async [Symbol.asyncDispose]() {
      running.stdin.end()
      await running.exited
    },
  }
}
