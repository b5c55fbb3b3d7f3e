import { dirname, executablePath, findProgram, isExecutableFile, join } from "../../pkg/libc/mod.ts"
import { runProgram } from "../../pkg/loop/mod.ts"
import { type Arguments, type Command, Found } from "../../tools/command.ts"
import { givenVariables, type Terminal } from "../../tools/environment.ts"

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
  summary: "Release the blocks of a node that has left the cluster for good",
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
  const beside = join(dirname(executablePath()), AGENT)
  const agent = isExecutableFile(beside) ? beside : findProgram(AGENT, env.PATH)
  if (agent === undefined)
    throw new Error(
      `Cannot run "${AGENT} ${words.join(" ")}": "${AGENT}" is neither beside cni nor in PATH; it has the clients of the cluster's stores`,
    )
  const { exitCode, signal } = await runProgram({
    path: agent,
    args: words,
    env: givenVariables(env),
    stdin: "inherit",
    onStdout: stdout,
    onStderr: stderr,
    outputLimit: 0,
  })
  if (signal !== undefined) throw new Error(`"${AGENT} ${words.join(" ")}" was ended by ${signal}`)
  if (exitCode !== 0) throw new Found(exitCode ?? 1)
}
