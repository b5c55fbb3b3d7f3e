import { decodeUtf8, encodeUtf8 } from "../../pkg/engine/mod.ts"
import { findProgram, join, makeTemporaryDirectory, ownCommand, removeDirectory } from "../../pkg/libc/mod.ts"
import { type Attachment, effectiveConfig, type Network, type Runtime } from "../../pkg/libcni/mod.ts"
import { runProgram } from "../../pkg/loop/mod.ts"
import { CniError, isJsonObject, type JsonObject, type JsonValue, member } from "../../pkg/types/mod.ts"
import { givenVariables } from "../environment.ts"
import { readHost } from "./host.ts"
import type { DryRun, DryRunAnswer, Made } from "./inside.ts"

/** The first argument of the process that this tool starts in the private copy. */
export const INSIDE = "__dry-run"

/** The default directories in which IPAM plugins and tuning keep data. */
const usualDirectories = ["/var/lib/cni", "/run/cni"]

/** The maximum size of the output in bytes. It contains ADD's changes, but no copy of a rule set. */
const ANSWER_MAX = 64 << 20

/**
 * Runs a real ADD in private namespaces with a copy of the host's network, and returns the changes. Changes nothing on
 * the host itself. Throws the error of ADD, or an error with the reason why the copy could not be created.
 */
export async function dryRunAdd(
  runtime: Runtime,
  network: Network,
  attachment: Omit<Attachment, "netns">,
): Promise<Made> {
  const scratch = makeTemporaryDirectory(join(runtime.env?.TMPDIR || "/tmp", "cni-dry-run-"))
  try {
    const values = network.plugins.map(({ raw }) => raw)
    const plan: DryRun = {
      host: readHost(new Set(values.flatMap(namedLinks))),
      files: {
        scratch,
        written: [...usualDirectories, ...values.flatMap(directoriesOf)],
        seen: [...runtime.path, ...values.flatMap(filesRead)],
      },
      list: decodeUtf8(effectiveConfig(network)),
      path: runtime.path,
      attachment,
      timeoutMs: runtime.timeoutMs,
    }
    const answer = await runItself(plan, runtime)
    if ("made" in answer) return answer.made
    const { code, msg, details } = answer.error
    throw new CniError(code, msg, { details: details ?? "" })
  } finally {
    removeDirectory(scratch) // its content was deleted with the mount namespace
  }
}

async function runItself(plan: DryRun, { env, signal, stderr }: Runtime): Promise<DryRunAnswer> {
  const unshare = findProgram("unshare", env?.PATH)
  if (unshare === undefined || findProgram("mount", env?.PATH) === undefined) {
    throw new Error(
      'Cannot create a private copy of the host: it needs the programs "unshare" and "mount" of util-linux',
    )
  }
  const program = {
    path: unshare,
    args: ["--net", "--mount", "--propagation", "private", "--", ...ownCommand(), INSIDE],
    env: givenVariables(env ?? {}),
    stdin: encodeUtf8(JSON.stringify(plan)),
    ownSession: true, // plugins end with a stopped program
    outputLimit: ANSWER_MAX,
  }
  const ended = await runProgram(program, signal)
  signal?.throwIfAborted()
  try {
    const answer: DryRunAnswer = JSON.parse(decodeUtf8(ended.stdout))
    stderr(ended.stderr)
    return answer
  } catch {
    const reason = decodeUtf8(ended.stderr).trim() || ended.signal || `exit code ${ended.exitCode}`
    throw new Error(`Cannot create a private copy of the host: ${reason}`)
  }
}

function namedLinks(raw: JsonObject): string[] {
  return ["bridge", "master", "device", "vrfname"].flatMap((key) => textOf(member(raw, key)))
}

function directoriesOf(raw: JsonObject): string[] {
  const ipam = member(raw, "ipam")
  return [...textOf(member(raw, "dataDir")), ...(isJsonObject(ipam) ? textOf(member(ipam, "dataDir")) : [])]
}

function filesRead(raw: JsonObject): string[] {
  const ipam = member(raw, "ipam")
  return isJsonObject(ipam) ? [...textOf(member(ipam, "resolvConf")), ...textOf(member(ipam, "dataDir"))] : []
}

function textOf(value: JsonValue | undefined): string[] {
  return typeof value === "string" && value !== "" ? [value] : []
}
