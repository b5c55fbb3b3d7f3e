import { readdirSync, statSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { mustRun, type Output, type ProgramOptions, runProgram } from "./program.ts"
import { waitFor } from "./wait-for.ts"

/** A named network namespace, with methods that run programs inside. */
export abstract class Namespace {
  /** The name that `ip netns list` shows. */
  readonly name: string
  /** The file of the namespace, for `CNI_NETNS`. */
  readonly path: string

  constructor(name: string) {
    this.name = name
    this.path = `/run/netns/${name}`
  }

  /** Returns the command line that runs `command` in the namespace, in the process that the caller starts. */
  abstract commandLine(command: readonly string[]): string[]

  /** Runs a program in the namespace. Throws `ProgramError` if the exit code is not 0. */
  exec(file: string, args: readonly string[] = [], options: ProgramOptions = {}): Promise<Output> {
    return mustRun(this.commandLine([file, ...args]), options)
  }

  /** Runs a program in the namespace and returns its output, also after a failure. */
  tryExec(file: string, args: readonly string[] = [], options: ProgramOptions = {}): Promise<Output> {
    return runProgram(this.commandLine([file, ...args]), options)
  }

  /** Runs a program, as `json<Link[]>("ip", ["-j", "link"])`, and parses its output: `[]` if it prints nothing. */
  async json<T>(file: string, args: readonly string[]): Promise<T> {
    const { stdout } = await this.exec(file, args)
    return JSON.parse(stdout.trim() || "[]") as T
  }
}

/** A container's namespace as a plugin gets it, empty and with `lo` down, from `host.addContainer()`. */
export class ContainerNamespace extends Namespace {
  /** Uses `ip netns exec`, which mounts the namespace's own /sys. All other files are those of the machine. */
  commandLine(command: readonly string[]): string[] {
    return [Bun.which("ip") ?? "ip", "netns", "exec", this.name, ...command]
  }
}

const directory = "/run/netns"

export function namespacePrefix(pid: number): string {
  return `cnit-${pid}-`
}

/** Returns a unique namespace name that begins with the prefix of this process. */
export function uniqueNamespaceName(label: string): string {
  return `${namespacePrefix(process.pid)}${crypto.randomUUID().slice(0, 8)}-${label}`
}

/** Returns the names in `ip netns list` that begin with `prefix`. */
export async function listNamespaces(prefix: string): Promise<string[]> {
  const names = await readdir(directory).catch(() => [] as string[])
  return names.filter((name) => name.startsWith(prefix)).sort()
}

/**
 * Returns the process IDs in a namespace, like `ip netns pids`; an empty list for a deleted namespace. Reads /proc
 * without starting a program, because each host calls this function several times.
 */
export async function namespacePids(name: string): Promise<number[]> {
  const id = namespaceId(`${directory}/${name}`)
  if (id === undefined) return []
  const pids = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))
  return pids.filter((pid) => namespaceId(`/proc/${pid}/ns/net`) === id).map(Number)
}

/** Returns the device and inode numbers that identify a namespace, or undefined if the process has ended. */
function namespaceId(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}:${ino}`
  } catch {
    return undefined
  }
}

/** Kills every process in a namespace and removes it, like `ip netns del`. A missing namespace is not an error. */
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
    // The process has ended since it was listed.
  }
}
