import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import { type Spawn, spawn } from "../libc/mod.ts"
import { CniError, Code, orCannot } from "../types/mod.ts"
import type { Programs } from "./programs.ts"
import { type Content, splitWords, type TableName } from "./rule.ts"
import { type Change, parseSave, printRestore } from "./save-restore.ts"

/** The whole environment of the programs, whose messages are in English. */
const ENVIRONMENT = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" } as const
/** The time that iptables-legacy waits for the lock of the tables, in seconds; iptables-nft needs no lock. */
const LOCK_WAIT_S = 20
/** The limits of a program's time and output, enough for some 500,000 rules. */
const LIMITS: Limits = { timeoutMs: 30_000, outputLimit: 64 << 20 }
/** The programs' exit code if they did not get the lock of the tables (`RESOURCE_PROBLEM`). */
const EXIT_LOCKED = 4
/** The maximum number of attempts. An attempt fails only because another program has changed the table. */
const ATTEMPTS = 10

type Limits = Pick<Required<Spawn>, "timeoutMs" | "outputLimit">

/** Returns a table, like `iptables-save -t nat`. Throws `CniError`, with code 11 if the program does not end. */
export function readTable(programs: Programs, table: TableName, limits = LIMITS): Content {
  const { exitCode, stdout, stderr } = run(programs.save, ["-t", table], undefined, limits)
  if (exitCode !== 0) throw refusal(`Cannot read table ${table} by ${programs.save}`, { table, stderr })
  return parseSave(stdout, table)
}

/**
 * Makes all changes of a table or none, like `iptables-restore --noflush --wait`. Runs no program if there are no
 * changes. Throws `CniError` with the refused line, with code 11 if other programs held the lock for too long.
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
 * Reads a table, and makes the changes that `plan` selects by one run of `iptables-restore`. The program refuses the
 * changes if another caller has created the same chain or deleted the same rule since. In this case the table is read
 * and `plan` is called again. If `plan` returns no changes, only `iptables-save` runs. Throws `CniError`, with code 11
 * after ten attempts.
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

/** Runs a program of iptables. Throws `CniError` if it does not end by itself, with code 11 if it takes too long. */
export function run(path: string, args: readonly string[], stdin: Uint8Array | undefined, limits = LIMITS) {
  const start = () => spawn({ path, args, env: ENVIRONMENT, cwd: "/", ...limits, ...(stdin && { stdin }) })
  const { exitCode, signal, timedOut, wroteTooMuch, stdout, stderr } = orCannot(`Cannot run ${path}`, start)
  const { timeoutMs, outputLimit } = limits
  if (timedOut) throw new CniError(Code.TryAgainLater, `Cannot run ${path}: it did not end within ${timeoutMs} ms`)
  if (wroteTooMuch || signal !== undefined) {
    const why = wroteTooMuch ? `it wrote more than ${outputLimit} bytes` : `signal ${signal} ended it`
    throw new CniError(Code.Internal, `Cannot run ${path}: ${why}`, { details: decodeUtf8(stderr).trim() })
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
 * Returns the error for a program that failed: the failed action, the refused line of the input, and the program's
 * message. The details name the kernel features that the line needs. The number of the line comes from the program's
 * message, and is used only for the error.
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

/** Returns the names of the matches and targets in these lines. */
function neededBy(lines: string): string[] {
  return lines.split("\n").flatMap((line) => {
    const words = splitWords(line)
    return words.flatMap((word, at) => {
      if (words[at - 1] === "-m") return [`match ${word}`]
      return words[at - 1] === "-j" && /^[A-Z]+$/.test(word) ? [`target ${word}`] : []
    })
  })
}

/** Returns a program's message without its name, the line number, unrelated lines, and advice. */
function essence(stderr: string): string {
  return stderr
    .split("\n")
    .map((line) =>
      line.replace(/^ip6?tables-\S+( v[\d.]+)?( \(\w+\))?:\s*/, "").replace(/^line \d+( failed)?(: )?/, ""),
    )
    .filter((line) => line.trim() !== "" && !/^(# Warning|Error occurred at|Try `)/.test(line))
    .join("; ")
}
