import { mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Attachment, effectiveConfig, type Network, type Runtime } from "../../pkg/libcni/mod.ts"
import { CniError, isJsonObject, type JsonObject, type JsonValue, member } from "../../pkg/types/mod.ts"
import { readHost } from "./host.ts"
import type { DryRun, DryRunAnswer, Made } from "./inside.ts"

/** The word by which the tool runs itself in the private copy. */
export const INSIDE = "__dry-run"

/** The default directories of IPAM plugins and tuning. */
const usualDirectories = ["/var/lib/cni", "/run/cni"]

/**
 * Runs a real ADD in namespaces of its own, in which there is a copy of the host, and tells what it has made. The host itself
 * is only read. Throws the error that the ADD would end with, or one that says why there is no private copy.
 */
export async function dryRunAdd(
  runtime: Runtime,
  network: Network,
  attachment: Omit<Attachment, "netns">,
): Promise<Made> {
  const scratch = mkdtempSync(join(tmpdir(), "cni-dry-run-"))
  try {
    const values = network.plugins.map(({ raw }) => raw)
    const plan: DryRun = {
      host: readHost(new Set(values.flatMap(namedLinks))),
      files: {
        scratch,
        written: [...usualDirectories, ...values.flatMap(directoriesOf)],
        seen: [...runtime.path, ...values.flatMap(filesRead)],
      },
      list: new TextDecoder().decode(effectiveConfig(network)),
      path: runtime.path,
      attachment,
      timeoutMs: runtime.timeoutMs,
    }
    const answer = await runItself(plan, runtime)
    if ("made" in answer) return answer.made
    const { code, msg, details } = answer.error
    throw new CniError(code, msg, { details: details ?? "" })
  } finally {
    rmdirSync(scratch) // what was in it went with the mount namespace
  }
}

async function runItself(plan: DryRun, { env, signal, stderr }: Runtime): Promise<DryRunAnswer> {
  if (Bun.which("unshare") === null || Bun.which("mount") === null) {
    throw new Error('Cannot make a private copy of the host: it needs the programs "unshare" and "mount" of util-linux')
  }
  const isCompiled = Bun.main.startsWith("/$bunfs/")
  const itself = [process.execPath, ...(isCompiled ? [] : [Bun.main]), INSIDE]
  const child = Bun.spawn(["unshare", "--net", "--mount", "--propagation", "private", "--", ...itself], {
    stdin: new TextEncoder().encode(JSON.stringify(plan)),
    stdout: "pipe",
    stderr: "pipe",
    env: { ...env },
    ...(signal === undefined ? {} : { signal }),
  })
  const [stdout, said] = await Promise.all([child.stdout.text(), child.stderr.bytes(), child.exited])
  try {
    const answer: DryRunAnswer = JSON.parse(stdout)
    stderr(said)
    return answer
  } catch {
    const reason = new TextDecoder().decode(said).trim() || `exit code ${child.exitCode}`
    throw new Error(`Cannot make a private copy of the host: ${reason}`)
  }
}

/** The links that a configuration may name. */
function namedLinks(raw: JsonObject): string[] {
  return ["bridge", "master", "device", "vrfname"].flatMap((key) => textOf(member(raw, key)))
}

/** The directories that plugins write into by this configuration. */
function directoriesOf(raw: JsonObject): string[] {
  const ipam = member(raw, "ipam")
  return [...textOf(member(raw, "dataDir")), ...(isJsonObject(ipam) ? textOf(member(ipam, "dataDir")) : [])]
}

/** The files that plugins read by this configuration. */
function filesRead(raw: JsonObject): string[] {
  const ipam = member(raw, "ipam")
  return isJsonObject(ipam) ? [...textOf(member(ipam, "resolvConf")), ...textOf(member(ipam, "dataDir"))] : []
}

function textOf(value: JsonValue | undefined): string[] {
  return typeof value === "string" && value !== "" ? [value] : []
}
