/**
 * Removes the namespaces of a test process that ended without doing so: killed, interrupted, or a test ran into its
 * time limit. Started once per test process, outside of its session, by the first `HostNamespace`.
 *
 *   bun integration/lab/keeper.ts PID
 */
import { readFile } from "node:fs/promises"
import { listNamespaces, namespacePrefix, removeNamespace } from "./namespace.ts"

/** When a process began, in clock ticks since boot: tells it from a later one with the same number. proc(5), stat, 22 */
async function startTime(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]
}

if (import.meta.main) {
  const pid = Number(process.argv[2])
  const started = await startTime(pid)
  while (started !== undefined && (await startTime(pid)) === started) await Bun.sleep(100)
  for (const name of await listNamespaces(namespacePrefix(pid))) await removeNamespace(name)
}
