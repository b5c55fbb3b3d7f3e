import { join } from "node:path"
import { execa } from "execa"
import { type Namespace, programEnv, scaleTimeout, waitLimitMs } from "../lab/mod.ts"

const script = join(import.meta.dir, "transfer.ts")
/** Bytes of a full frame, which is what a qdisc counts, and those of them that the receiver gets. */
const FRAME = 1514
const PAYLOAD = 1448

/** A transfer to be measured. */
export interface Transfer {
  from: Namespace
  to: Namespace
  address: string
  /** Bytes, of which those of the burst and those that wait are not measured. */
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

/** How often a transfer is measured again that other work of the machine has held up. */
const ATTEMPTS = 5

/**
 * Transfers until one is within 10 % of the rate. A sender that is held up makes it slower; a receiver that is held up
 * at the start sees at once what has waited, which makes it look faster. Throws when none is: a wrong limit is wrong
 * each time.
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
