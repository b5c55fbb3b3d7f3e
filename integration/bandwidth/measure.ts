import { join } from "node:path"
import { execa } from "execa"
import { type Namespace, programEnv, scaleTimeout, waitLimitMs } from "../lab/mod.ts"

const script = join(import.meta.dir, "transfer.ts")
/** The bytes of a full frame, as a qdisc counts them, and the bytes of its payload. */
const FRAME = 1514
const PAYLOAD = 1448

/** A transfer to be measured. */
export interface Transfer {
  from: Namespace
  to: Namespace
  address: string
  /** The total bytes. The burst and the waiting bytes are not measured. */
  bytes: number
  skip: number
}

/** Transfers over TCP, and returns the bits a second of frames that the receiver saw. */
export async function transfer({ from, to, address, bytes, skip }: Transfer): Promise<number> {
  const options = {
    env: programEnv,
    extendEnv: false,
    stdin: "ignore",
    reject: false,
    timeout: scaleTimeout(2 * waitLimitMs),
  } as const
  const [sinkFile = "", ...sinkArgs] = to.commandLine([process.execPath, script, "sink", String(bytes)])
  const sink = execa(sinkFile, sinkArgs, options)
  const port = Promise.withResolvers<string>()
  sink.stdout.once("data", (line) => port.resolve(String(line).trim()))
  const [file = "", ...args] = from.commandLine([process.execPath, script, "source", address, await port.promise])
  const source = execa(file, args, options)
  try {
    const { stdout, stderr } = await sink
    const [, times = ""] = stdout.split("\n")
    if (times === "") throw new Error(`the transfer to ${address} did not end: ${stderr}`)
    return rateOf(JSON.parse(times), skip)
  } finally {
    source.kill("SIGKILL")
    await source
  }
}

function rateOf(arrivals: readonly [atMs: number, bytes: number][], skip: number): number {
  const [start, end] = [arrivals.find(([, total]) => total >= skip), arrivals.at(-1)]
  if (!start || !end || start === end) throw new Error("all of the transfer came at once")
  const bytesPerSecond = ((end[1] - start[1]) / (end[0] - start[0])) * 1000
  return (bytesPerSecond * FRAME * 8) / PAYLOAD
}

/** The number of attempts for a transfer that other work of the machine disturbs. */
const ATTEMPTS = 5

/**
 * Transfers until one is within 10 % of the rate. A delayed sender makes it slower. A receiver that is delayed at the
 * start receives the waiting bytes at once, which looks faster. Throws if none is: a wrong limit is wrong each time.
 */
export async function expectRate(bitsPerSecond: number, what: Transfer): Promise<void> {
  const measured: number[] = []
  while (measured.length < ATTEMPTS) {
    const rate = await transfer(what)
    if (Math.abs(rate - bitsPerSecond) <= 0.1 * bitsPerSecond) return
    measured.push(rate)
  }
  throw new Error(`expected ${bitsPerSecond} bit/s, measured ${measured.map(Math.round).join(", ")}`)
}
