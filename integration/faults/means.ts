import { calls } from "../../host/seccomp.json"
import {
  builtPlugins,
  expectUnchanged,
  isAllocationTrace,
  type PluginCall,
  pluginRow,
  Stage,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"

const KiB = 1024

/**
 * A way to run a plugin without a resource: `tool` is a system program with arguments, `options` are options of the
 * program `launcher`.
 */
export interface Mean {
  readonly tool?: readonly string[]
  readonly options?: (plugin: string) => readonly string[]
}

/** Ways to run a plugin without a resource, by the name of the condition. */
export type Means = Readonly<Record<string, Mean>>

const launch = (...options: readonly string[]): Mean => ({ options: () => options })

/** A root directory in which the plugins are in /opt/cni/bin. */
export const bareRoot = "a root with /proc, /sys, its data, the plugins, and a /tmp that holds no programs"

/** Conditions under which every plugin must work completely. */
export const needless: Means = {
  "PR_SET_MDWE, which refuses new code": launch("-m"),
  "32 MB of address space": { tool: ["prlimit", `--as=${32 * KiB * KiB}`] },
  "16 descriptors": { tool: ["prlimit", "--nofile=16"] },
  "a stack of 256 KiB": { tool: ["prlimit", `--stack=${256 * KiB}`] },
  "an unlimited stack": { tool: ["prlimit", "--stack=unlimited"] },
  "the system calls of host/seccomp.json": launch("-s"),
  "a clock that can be read by system calls alone": launch("-v"),
  [bareRoot]: {
    options: (plugin) => {
      const data = ["/var/lib/cni", "/run/cni", "/run/netns", `${builtPlugins}=/opt/cni/bin`]
      const binds = ["/proc", "/sys", "/tmp", ...data, ...(pluginRow(plugin).devices ?? [])]
      return [...binds.flatMap((name) => ["-b", name.includes("=") ? name : `${name}=${name}`]), "-t", "/tmp"]
    },
  },
  "a read-only root": launch("-r", "/"),
  "an empty PATH": { tool: ["env", "PATH="] },
  "no PATH": { tool: ["env", "-u", "PATH"] },
  "a closed stderr": launch("-c", "2"),
  "a full stderr": launch("-f", "2"),
  "clocks that stand elsewhere": {
    tool: ["unshare", "--time", "--fork", "--monotonic", "86400000", "--boottime", "7"],
  },
}

/** Conditions under which some plugins cannot do all of their work. Such a plugin must report the failure. */
export const needed: Means = {
  "a closed stdin": launch("-c", "0"),
  "a closed stdout": launch("-c", "1"),
  "a full stdout": launch("-f", "1"),
  "no /sys": launch("-t", "/sys"),
  "no /proc": launch("-t", "/proc"),
  "no /proc/sys": launch("-t", "/proc/sys"),
  "a read-only /proc/sys": launch("-r", "/proc/sys"),
  "a read-only /var/lib/cni": launch("-r", "/var/lib/cni"),
  "a read-only /run/cni": launch("-r", "/run/cni"),
  "no /run/netns": launch("-t", "/run/netns"),
  "no rtnetlink": launch("-n", "0"),
  "no netfilter": launch("-n", "12"),
}

/**
 * System calls of the C library at the start and end of a program. A plugin cannot report their failure, because its
 * own code does not run then.
 */
const libraryCalls = ["execve", "arch_prctl", "exit_group"]

/** Every system call, refused as by a security module. */
export const refused: Means = Object.fromEntries(
  calls.amd64
    .filter((name) => !libraryCalls.includes(name))
    .flatMap((name) => [
      [`${name} refused with EPERM`, launch("-e", `${name}=1`)],
      [`${name} refused with EACCES`, launch("-e", `${name}=13`)],
    ]),
)

/** Returns the command that runs a plugin under all of these conditions. */
export function commandWithout(means: readonly Mean[], launcher: string, plugin: string): string[] {
  const tools = means.flatMap(({ tool }) => tool ?? [])
  return [...tools, launcher, ...means.flatMap(({ options }) => options?.(plugin) ?? [])]
}

/** Conditions under which a plugin cannot write its output. */
export const mute: ReadonlySet<string> = new Set(["a closed stdout", "a full stdout"])

/**
 * Runs every verb of a plugin with two attachments, of which DEL deletes the first and GC the second. `call` defines
 * how the plugin runs. Throws if a call fails or objects remain.
 */
export async function liveWhole(plugin: string, call: Partial<PluginCall>): Promise<void> {
  await using stage = await Stage.create(plugin)
  const first = await stage.attach({ call }) // creates what stays on purpose, such as a bridge
  await first.attachment.add()
  await first.attachment.del()
  const [one, other] = [await stage.attach({ call }), await stage.attach({ call })]
  const before = await takeSnapshot(stage.host)
  await succeed(one.attachment.run("VERSION"))
  await succeed(one.attachment.run("STATUS"))
  for (const { attachment } of [one, other]) await attachment.check(await attachment.add())
  await one.attachment.del()
  await succeed(other.attachment.run("GC", { "cni.dev/valid-attachments": [] }))
  await other.attachment.del()
  expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
}
