import { join } from "node:path"
import { execa } from "execa"
import { type Namespace, programEnv, scaleTimeout, waitLimitMs } from "../lab/mod.ts"

const script = join(import.meta.dir, "transfer.ts")
/** The size of a full frame, as qdiscs count it, and of its payload, in bytes. */
const FRAME = 1514
const PAYLOAD = 1448

/** A TCP transfer to measure. */
export interface Transfer {
  from: Namespace
  to: Namespace
  address: string
  /** The total size in bytes. The first `skip` bytes, which are the burst and the queue, are not measured. */
  bytes: number
  skip: number
}

/** Transfers data over TCP. Returns the rate at which frames arrived, in bits per second. */
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

/** The number of attempts, because other load on the machine can disturb a transfer. */
const ATTEMPTS = 5

/**
 * Repeats a transfer until its rate is within 10 % of the limit, at most five times. A correct limit fails only by
 * chance: a delayed sender makes a transfer slower, and a receiver that starts late makes a transfer seem faster,
 * because it gets the queued bytes at once. A wrong limit fails each time.
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
