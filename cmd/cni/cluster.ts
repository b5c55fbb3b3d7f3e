import { accessSync, constants } from "node:fs"
import { dirname, join } from "node:path"
import { type Arguments, type Command, Found } from "../../tools/command.ts"
import { readPath, type Terminal } from "../../tools/environment.ts"

/** The executable with the clients of the cluster's stores. */
const AGENT = "cni-agent"

/** `cni ipam pool`, as the agent does it: create, ls, show, rm. */
export const ipamPool = handedOver("ipam pool", {
  summary: "Show and change the pools of addresses that a cluster's nodes share",
  words: ["VERB", "[ARGUMENT…]"],
  examples: ["pool ls", "pool show pods"],
})

/** `cni ipam blocks` */
export const ipamBlocks = handedOver("ipam blocks", {
  summary: "Show the blocks of pools that a cluster's nodes own",
  words: ["[POOL]"],
  examples: ["blocks", "blocks pods"],
})

/** `cni ipam release-node` */
export const ipamReleaseNode = handedOver("ipam release-node", {
  summary: "Take back the blocks of a cluster's node that is gone for good",
  words: ["NODE"],
  examples: ["release-node node-7"],
})

/** A command that is the agent's: its words and flags go there as they are. */
function handedOver(
  name: string,
  { summary, words, examples }: Pick<Command, "summary" | "words"> & { examples: readonly string[] },
): Command {
  return {
    summary,
    words,
    flags: {},
    takesAll: true,
    help: `Runs "${AGENT} ${name}", which is found beside cni or in PATH: "${AGENT} ${name} --help" shows its flags.

Examples:
${examples.map((line) => `  cni ipam ${line}`).join("\n")}`,
    run: (args, terminal) => handOver([...name.split(" "), ...args.words], terminal),
  }
}

/** The words and flags of a command line as they were given, for a command of the agent's. */
export function wordsOf({ words, flags }: Arguments): string[] {
  const given = Object.entries(flags).flatMap(([flag, value]) =>
    typeof value === "string" ? [`--${flag}=${value}`] : value === true ? [`--${flag}`] : [],
  )
  return [...words, ...given]
}

/** Runs the agent's executable with these words, and ends with its exit code. Throws where there is no such executable. */
export async function handOver(words: readonly string[], { env, stdout, stderr }: Terminal): Promise<void> {
  const places = [dirname(process.execPath), ...readPath(env.PATH ?? "")].map((directory) => join(directory, AGENT))
  const agent = places.find(isExecutable)
  if (agent === undefined)
    throw new Error(
      `Cannot run "${AGENT} ${words.join(" ")}": "${AGENT}" is neither beside cni nor in PATH; it has the clients of the cluster's stores`,
    )
  const child = Bun.spawn([agent, ...words], { env: { ...env }, stdin: "inherit", stdout: "pipe", stderr: "pipe" })
  const copy = async (from: ReadableStream<Uint8Array>, to: (text: string) => void) => {
    const decoder = new TextDecoder()
    for await (const chunk of from) to(decoder.decode(chunk, { stream: true }))
  }
  await Promise.all([copy(child.stdout, stdout), copy(child.stderr, stderr)])
  const code = await child.exited
  if (code !== 0) throw new Found(code)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
