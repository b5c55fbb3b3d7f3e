import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import { type Spawned, spawn } from "../libc/mod.ts"
import { CniError, Code } from "../types/mod.ts"
import { type Change, printRestore } from "./change.ts"
import type { Programs } from "./programs.ts"
import { refusal } from "./refusal.ts"
import type { Content, TableName } from "./rule.ts"
import { parseSave } from "./save.ts"

/** All that the programs see of the environment; messages in English. */
const ENVIRONMENT = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" } as const
/** How long the older kind waits for others to let go of the tables, in seconds; the newer one needs no lock. */
const LOCK_WAIT_S = 20
const TIME_LIMIT_MS = 30_000
/** Some 500,000 rules. */
const OUTPUT_LIMIT = 64 << 20
/** The programs' exit code when they did not get that lock (`RESOURCE_PROBLEM`). */
const EXIT_LOCKED = 4

/** The chains and rules of a table, like `iptables-save -t nat`. Throws `CniError`. */
export function readTable(programs: Programs, table: TableName): Content {
  const { exitCode, stdout, stderr } = run(programs.save, ["-t", table])
  if (exitCode !== 0) throw refusal(`Cannot read table ${table} by ${programs.save}`, table, stderr)
  return parseSave(stdout, table)
}

/**
 * Makes all changes to a table, or none, like `iptables-restore --noflush --wait`. No changes: no process. Throws
 * `CniError` with the line that was refused; code 11 when others held the tables for too long.
 */
export function restoreTable(programs: Programs, table: TableName, changes: readonly Change[]): void {
  if (changes.length === 0) return
  const input = printRestore(table, changes)
  const options = ["--noflush", "--wait", String(LOCK_WAIT_S)]
  const { exitCode, stderr } = run(programs.restore, options, encodeUtf8(input))
  if (exitCode === 0) return
  const code = exitCode === EXIT_LOCKED ? Code.TryAgainLater : Code.Internal
  throw refusal(`Cannot change table ${table} by ${programs.restore}`, table, stderr, input, code)
}

function run(path: string, args: readonly string[], stdin?: Uint8Array) {
  const { exitCode, signal, timedOut, wroteTooMuch, stdout, stderr } = start(path, args, stdin)
  if (timedOut) throw new CniError(Code.TryAgainLater, `Cannot run ${path}: it did not end within ${TIME_LIMIT_MS} ms`)
  if (wroteTooMuch || signal !== undefined) {
    const why = wroteTooMuch ? `more than ${OUTPUT_LIMIT} bytes of output` : `signal ${signal}`
    throw new CniError(Code.Internal, `Cannot run ${path}: ended by ${why}`, { details: decodeUtf8(stderr).trim() })
  }
  return { exitCode, stdout: decodeUtf8(stdout), stderr: decodeUtf8(stderr) }
}

function start(path: string, args: readonly string[], stdin: Uint8Array | undefined): Spawned {
  const limits = { timeoutMs: TIME_LIMIT_MS, outputLimit: OUTPUT_LIMIT }
  try {
    return spawn({ path, args, env: ENVIRONMENT, cwd: "/", ...limits, ...(stdin && { stdin }) })
  } catch (cause) {
    throw new CniError(Code.Internal, `Cannot run ${path}`, { cause })
  }
}
