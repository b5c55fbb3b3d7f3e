import { readdir } from "node:fs/promises"
import { mustRun, runProgram } from "./program.ts"
import { waitFor } from "./wait-for.ts"

const directory = "/run/netns"

/** What the names of all namespaces of one test process begin with. */
export function namespacePrefix(pid: number): string {
  return `cnit-${pid}-`
}

/** A name that no other namespace has, with the process that made it in front. */
export function uniqueNamespaceName(label: string): string {
  return `${namespacePrefix(process.pid)}${crypto.randomUUID().slice(0, 8)}-${label}`
}

/** The names in `ip netns list` that begin with `prefix`. */
export async function listNamespaces(prefix: string): Promise<string[]> {
  const names = await readdir(directory).catch(() => [] as string[])
  return names.filter((name) => name.startsWith(prefix)).sort()
}

/** The processes inside a namespace, like `ip netns pids`; none when the namespace is gone. */
export async function namespacePids(name: string): Promise<number[]> {
  const { stdout, exitCode } = await runProgram(["ip", "netns", "pids", name])
  return exitCode === 0 ? stdout.split("\n").filter(Boolean).map(Number) : []
}

/** Removes a namespace, like `ip netns del`, after it has killed every process inside. One that is gone is fine. */
export async function removeNamespace(name: string): Promise<void> {
  if (!(await listNamespaces(name)).includes(name)) return
  await waitFor(async () => {
    const pids = await namespacePids(name)
    for (const pid of pids) kill(pid)
    return pids.length === 0
  }, `the processes in ${name} to end`)
  await mustRun(["ip", "netns", "del", name])
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // It has ended since it was listed.
  }
}
