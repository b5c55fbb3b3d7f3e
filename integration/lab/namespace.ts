import { readdirSync, statSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { mustRun, type Output, type ProgramOptions, runProgram } from "./program.ts"
import { waitFor } from "./wait-for.ts"

/** A named network namespace, and how programs get into it. */
export abstract class Namespace {
  /** The name that `ip netns list` shows. */
  readonly name: string
  /** The file that stands for it, which is what `CNI_NETNS` holds. */
  readonly path: string

  constructor(name: string) {
    this.name = name
    this.path = `/run/netns/${name}`
  }

  /** The command line that runs `command` inside the namespace. Every program on it replaces itself with the next. */
  abstract commandLine(command: readonly string[]): string[]

  /** Runs a program inside. Throws `ProgramError` when its exit code is not 0. */
  exec(file: string, args: readonly string[] = [], options: ProgramOptions = {}): Promise<Output> {
    return mustRun(this.commandLine([file, ...args]), options)
  }

  /** Runs a program inside, with any exit code. */
  tryExec(file: string, args: readonly string[] = [], options: ProgramOptions = {}): Promise<Output> {
    return runProgram(this.commandLine([file, ...args]), options)
  }

  /** What a program with JSON output says, for example `json<Link[]>("ip", ["-j", "link"])`; no output is `[]`. */
  async json<T>(file: string, args: readonly string[]): Promise<T> {
    const { stdout } = await this.exec(file, args)
    return JSON.parse(stdout.trim() || "[]") as T
  }
}

/**
 * A network namespace as a runtime hands it to a plugin: empty, `lo` down. It belongs to a `HostNamespace`, which makes
 * it (`host.addContainer()`) and removes it.
 */
export class ContainerNamespace extends Namespace {
  /** `ip netns exec` gives the program a /sys of this namespace; files are those of the machine. */
  commandLine(command: readonly string[]): string[] {
    return [Bun.which("ip") ?? "ip", "netns", "exec", this.name, ...command]
  }
}

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

/** The processes inside a namespace, like `ip netns pids`; none when the namespace is gone. It starts no program: each host asks several times. */
export async function namespacePids(name: string): Promise<number[]> {
  const id = namespaceId(`${directory}/${name}`)
  if (id === undefined) return []
  const pids = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))
  return pids.filter((pid) => namespaceId(`/proc/${pid}/ns/net`) === id).map(Number)
}

/** Device and inode, which tell a namespace from all others; undefined for a process that has ended. */
function namespaceId(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}:${ino}`
  } catch {
    return undefined
  }
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
