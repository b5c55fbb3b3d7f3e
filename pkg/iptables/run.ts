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
  const { exitCode, stderr } = run(programs.restore, options, new TextEncoder().encode(input))
  if (exitCode === 0) return
  const code = exitCode === EXIT_LOCKED ? Code.TryAgainLater : Code.Internal
  throw refusal(`Cannot change table ${table} by ${programs.restore}`, table, stderr, input, code)
}

function run(path: string, options: readonly string[], input?: Uint8Array) {
  const child = start([path, ...options], input)
  const [stdout, stderr] = [child.stdout.toString(), child.stderr.toString()]
  if (child.exitedDueToTimeout) {
    throw new CniError(Code.TryAgainLater, `Cannot run ${path}: it did not end within ${TIME_LIMIT_MS} ms`)
  }
  if (child.exitedDueToMaxBuffer || child.signalCode) {
    const why = child.exitedDueToMaxBuffer ? `more than ${OUTPUT_LIMIT} bytes of output` : `signal ${child.signalCode}`
    throw new CniError(Code.Internal, `Cannot run ${path}: ended by ${why}`, { details: stderr.trim() })
  }
  return { exitCode: child.exitCode, stdout, stderr }
}

function start(command: string[], input: Uint8Array | undefined) {
  try {
    return Bun.spawnSync(command, {
      env: ENVIRONMENT,
      cwd: "/",
      stdin: input ?? "ignore",
      stdout: "pipe",
      stderr: "pipe",
      timeout: TIME_LIMIT_MS,
      killSignal: "SIGKILL",
      maxBuffer: OUTPUT_LIMIT,
    })
  } catch (cause) {
    throw new CniError(Code.Internal, `Cannot run ${command[0]}`, { cause })
  }
}
