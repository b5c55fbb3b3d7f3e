import { chmod } from "node:fs/promises"
import { dirname, join } from "node:path"
import { CProgram, mustRun, type Namespace, scaleTimeout, waitLimitMs } from "../lab/mod.ts"

/** The flags of a tap; <linux/if_tun.h>. */
export const IFF_TAP = 0x2
export const IFF_NO_PI = 0x1000
export const IFF_MULTI_QUEUE = 0x100

/**
 * Compiles the program that attaches to taps, and creates a copy of /dev/net/tun beside it. Every user may use both.
 */
export async function buildOpenTap(): Promise<CProgram> {
  const program = await CProgram.build(join(import.meta.dir, "open-tap.c"))
  await mustRun(["mknod", "-m", "666", deviceOf(program), "c", "10", "200"])
  await chmod(dirname(program.path), 0o755)
  return program
}

const deviceOf = ({ path }: CProgram) => join(dirname(path), "tun")

/** The user that runs a program without privileges. Without a user, root runs the program with all privileges. */
export interface User {
  readonly uid: number
  readonly gid: number
}

/** A process that is attached to a tap, like the monitor of a virtual machine, until disposal. */
export class TapUser implements AsyncDisposable {
  readonly #process: Bun.Subprocess<"pipe", "pipe", "inherit">
  readonly #lines: AsyncIterator<string>

  private constructor(process: Bun.Subprocess<"pipe", "pipe", "inherit">) {
    this.#process = process
    this.#lines = linesOf(process.stdout)
  }

  /** Attaches to a tap in a namespace. If that fails, throws an error with the errno. */
  static async attach(
    program: CProgram,
    where: Namespace,
    {
      name = "eth0",
      flags = IFF_TAP | IFF_NO_PI,
      user,
    }: { name?: string; flags?: number; user?: User | undefined } = {},
  ): Promise<TapUser> {
    const as = user
      ? ["setpriv", `--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups", "--inh-caps=-all"]
      : []
    const command = where.commandLine([...as, program.path, deviceOf(program), name, String(flags)])
    const attached = new TapUser(Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "inherit" }))
    if ((await attached.#lines.next()).value === "attached") return attached
    throw new Error(`errno ${await attached.#process.exited}`)
  }

  /**
   * Sends a frame (hexadecimal digits) repeatedly until `isWanted` accepts a frame that arrives at this or another tap.
   * The kernel needs a moment to notice that a tap is in use.
   */
  async ask(frame: string, isWanted: (frame: string) => boolean, at: TapUser = this): Promise<string> {
    const asking = setInterval(() => {
      this.#process.stdin.write(`${frame}\n`)
      this.#process.stdin.flush()
    }, 100)
    try {
      return await at.#receive(isWanted)
    } finally {
      clearInterval(asking)
    }
  }

  async #receive(isWanted: (frame: string) => boolean): Promise<string> {
    const giveUp = setTimeout(() => this.#process.kill(), scaleTimeout(waitLimitMs))
    try {
      for (;;) {
        const { value, done } = await this.#lines.next()
        if (done) throw new Error("no such frame has come")
        if (isWanted(value)) return value
      }
    } finally {
      clearTimeout(giveUp)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.stdin.end()
    await this.#process.exited
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n")
    rest = lines.pop() ?? ""
    yield* lines
  }
}

const digits = (address: string) =>
  address
    .split(".")
    .map((part) => Number(part).toString(16).padStart(2, "0"))
    .join("")

/** The addresses of the sender of an ARP request. */
export const asker = { mac: "0a00000000aa", ip: "10.22.0.77" }

/** Returns an ARP request for an address, RFC 826. */
export function arpRequest(address: string): string {
  return `ffffffffffff${asker.mac}08060001080006040001${asker.mac}${digits(asker.ip)}000000000000${digits(address)}`
}

export function arpReply(address: string, mac: string): string {
  const from = mac.replaceAll(":", "")
  return `${asker.mac}${from}08060001080006040002${from}${digits(address)}${asker.mac}${digits(asker.ip)}`
}
