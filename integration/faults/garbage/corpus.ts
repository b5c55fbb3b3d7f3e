import { join } from "node:path"
import type { PluginSetup } from "./calls.ts"
import type { CallCase, Case } from "./case.ts"

/**
 * The directory of stored cases, one on each line: inputs that once revealed a fault, and valid inputs from which
 * others are generated.
 */
const directory = join(import.meta.dir, "../corpus")

async function readLines<T>(file: string): Promise<T[]> {
  const text = await Bun.file(join(directory, file)).text()
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T)
}

/** Returns the inputs that once revealed a fault. */
export const readCorpus = () => readLines<Case>("found.jsonl")

/**
 * Returns the kernel's recorded answers to all requests of plugins, on a host on which `furnish` created an object of
 * each kind.
 */
export const readRecorded = () => readLines<Extract<Case, { kind: "read" }>>("netlink.jsonl")

/** Returns a stored call with the host's values in place of NETNS, ID and BIN. */
export function placed(one: CallCase, { env, config, result }: PluginSetup): CallCase {
  const { CNI_NETNS = "", CNI_CONTAINERID = "", CNI_PATH = "" } = env
  const place = (text: string) =>
    text.replaceAll("@NETNS", CNI_NETNS).replaceAll("@ID", CNI_CONTAINERID).replaceAll("@BIN", CNI_PATH)
  const own = Object.entries(one.env).map(([name, value]) => [name, place(value)])
  const stdin = place(one.stdin)
    .replaceAll('"@CONFIG"', JSON.stringify(config))
    .replaceAll('"@RESULT"', JSON.stringify(config.prevResult ?? result))
  return { ...one, env: { ...env, ...Object.fromEntries(own) }, stdin }
}
