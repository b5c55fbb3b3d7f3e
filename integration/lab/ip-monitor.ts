import { execa } from "execa"
import type { HostNamespace } from "./host-namespace.ts"
import { programEnv } from "./program.ts"
import { waitFor } from "./wait-for.ts"

/** A running `ip monitor` for links, and for other requested objects, with its output so far. */
export class IpMonitor implements AsyncDisposable {
  readonly #lines: string[] = []
  readonly #host: HostNamespace
  readonly #kill: () => void

  private constructor(host: HostNamespace, objects: readonly string[]) {
    const [file = "", ...args] = host.commandLine(["stdbuf", "-oL", "ip", "-o", "monitor", "link", ...objects])
    const monitor = execa(file, args, { env: programEnv, extendEnv: false, stdin: "ignore", reject: false })
    monitor.stdout.on("data", (chunk) => this.#lines.push(...String(chunk).split("\n")))
    this.#host = host
    this.#kill = () => monitor.kill("SIGKILL")
  }

  static async start(host: HostNamespace, ...objects: string[]): Promise<IpMonitor> {
    const monitor = new IpMonitor(host, objects)
    await monitor.#sees("begin")
    return monitor
  }

  /** Waits until all events have arrived, stops `ip monitor`, and returns the events. */
  async stop(): Promise<string[]> {
    await this.#sees("end")
    return this.#lines
  }

  /** Adds and deletes a link with this name until `ip monitor` reports it. */
  async #sees(name: string): Promise<void> {
    await waitFor(async () => {
      await this.#host.exec("ip", ["link", "add", name, "type", "bridge"])
      await this.#host.exec("ip", ["link", "delete", name])
      return this.#lines.some((line) => line.includes(` ${name}:`))
    }, `an event of link "${name}"`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill()
  }
}
