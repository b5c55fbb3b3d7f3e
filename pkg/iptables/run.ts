import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import { type Spawn, spawn } from "../libc/mod.ts"
import { CniError, Code, orCannot } from "../types/mod.ts"
import type { Programs } from "./programs.ts"
import { type Content, splitWords, type TableName } from "./rule.ts"
import { type Change, parseSave, printRestore } from "./save-restore.ts"

/** The whole environment of the programs; messages in English. */
const ENVIRONMENT = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" } as const
/** The time that iptables-legacy waits for the lock of the tables, in seconds; iptables-nft needs no lock. */
const LOCK_WAIT_S = 20
/** The limits of a program's time and output: some 500,000 rules. */
const LIMITS: Limits = { timeoutMs: 30_000, outputLimit: 64 << 20 }
/** The programs' exit code if they did not get that lock (`RESOURCE_PROBLEM`). */
const EXIT_LOCKED = 4
/** Each failed attempt means that another program has changed the table. */
const ATTEMPTS = 10

type Limits = Pick<Required<Spawn>, "timeoutMs" | "outputLimit">

/**
 * Returns the chains and rules of a table, like `iptables-save -t nat`. Throws `CniError`; code 11 if the program does
 * not end.
 */
export function readTable(programs: Programs, table: TableName, limits = LIMITS): Content {
  const { exitCode, stdout, stderr } = run(programs.save, ["-t", table], undefined, limits)
  if (exitCode !== 0) throw refusal(`Cannot read table ${table} by ${programs.save}`, { table, stderr })
  return parseSave(stdout, table)
}

/**
 * Makes all changes to a table, or none, like `iptables-restore --noflush --wait`. Runs nothing without changes. Throws
 * `CniError` with the refused line; code 11 if others held the lock for too long.
 */
export function restoreTable(programs: Programs, table: TableName, changes: readonly Change[]): void {
  if (changes.length === 0) return
  const input = printRestore(table, changes)
  const options = ["--noflush", "--wait", String(LOCK_WAIT_S)]
  const { exitCode, stderr } = run(programs.restore, options, encodeUtf8(input))
  if (exitCode === 0) return
  const code = exitCode === EXIT_LOCKED ? Code.TryAgainLater : Code.Internal
  throw refusal(`Cannot change table ${table} by ${programs.restore}`, { table, stderr, input, code })
}

/**
 * Makes the changes that `plan` selects after reading the table, in one `iptables-restore`. If that is refused because
 * the table has changed since (another caller has created the same chain, or deleted the same rule), `plan` is called
 * again. Without changes it runs only `iptables-save`. Throws `CniError`; code 11 after ten attempts.
 *
 * @example
 * changeTable(programs, "nat", ({ chains }) => (chains.includes("CNI-X") ? [] : [chain.create("CNI-X"), rule.append(jump)]))
 */
export function changeTable(programs: Programs, table: TableName, plan: (found: Content) => readonly Change[]): void {
  let found = readTable(programs, table)
  for (let attempt = 1; ; attempt++) {
    try {
      restoreTable(programs, table, plan(found))
      return
    } catch (error) {
      const now = readTable(programs, table)
      if (JSON.stringify(now) === JSON.stringify(found)) throw error
      if (attempt === ATTEMPTS) {
        throw new CniError(Code.TryAgainLater, `Cannot change table ${table}: other programs keep changing it`, {
          cause: error,
        })
      }
      found = now
    }
  }
}

/**
 * Runs a program of the packet filter. Throws `CniError` if it does not end by itself; code 11 if it takes too long.
 */
export function run(path: string, args: readonly string[], stdin: Uint8Array | undefined, limits = LIMITS) {
  const start = () => spawn({ path, args, env: ENVIRONMENT, cwd: "/", ...limits, ...(stdin && { stdin }) })
  const { exitCode, signal, timedOut, wroteTooMuch, stdout, stderr } = orCannot(`Cannot run ${path}`, start)
  const { timeoutMs, outputLimit } = limits
  if (timedOut) throw new CniError(Code.TryAgainLater, `Cannot run ${path}: it did not end within ${timeoutMs} ms`)
  if (wroteTooMuch || signal !== undefined) {
    const why = wroteTooMuch ? `more than ${outputLimit} bytes of output` : `signal ${signal}`
    throw new CniError(Code.Internal, `Cannot run ${path}: ended by ${why}`, { details: decodeUtf8(stderr).trim() })
  }
  return { exitCode, stdout: decodeUtf8(stdout), stderr: decodeUtf8(stderr) }
}

interface FailedProgram {
  table: TableName
  stderr: string
  input?: string
  code?: number
}

/**
 * Returns the error for a failed program: the failed action, the refused line of the input, and the program's own
 * words; the details name the kernel features that the line needs. The line number comes from the program's words,
 * which are used only for the message.
 */
export function refusal(what: string, { table, stderr, input = "", code = Code.Internal }: FailedProgram): CniError {
  const line = input.split("\n")[Number(/\bline:? (\d+)/.exec(stderr)?.[1]) - 1]
  const place = line === undefined ? "" : `: "${line}" was refused`
  const reason = essence(stderr)
  const needed = new Set([`table ${table}`, ...neededBy(line === undefined || line === "COMMIT" ? input : line)])
  return new CniError(code, `${what}${place}${reason === "" ? "" : `: ${reason}`}`, {
    details: `the kernel needs ${[...needed].join(", ")}`,
  })
}

/** Returns the matches and targets in these lines. */
function neededBy(lines: string): string[] {
  return lines.split("\n").flatMap((line) => {
    const words = splitWords(line)
    return words.flatMap((word, at) => {
      if (words[at - 1] === "-m") return [`match ${word}`]
      return words[at - 1] === "-j" && /^[A-Z]+$/.test(word) ? [`target ${word}`] : []
    })
  })
}

/** Returns a program's message without its name, the line number, unrelated lines, and its advice. */
function essence(stderr: string): string {
  return stderr
    .split("\n")
    .map((line) =>
      line.replace(/^ip6?tables-\S+( v[\d.]+)?( \(\w+\))?:\s*/, "").replace(/^line \d+( failed)?(: )?/, ""),
    )
    .filter((line) => line.trim() !== "" && !/^(# Warning|Error occurred at|Try `)/.test(line))
    .join("; ")
}
