import { join } from "node:path"
import type { Ground } from "./calls.ts"
import type { CallCase, Case } from "./case.ts"

/** The stored cases, a line for each: inputs that have found something once, and valid ones that others are made of. */
const directory = join(import.meta.dir, "../corpus")

async function readLines<T>(file: string): Promise<T[]> {
  const text = await Bun.file(join(directory, file)).text()
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T)
}

/** What has found something once. */
export const readCorpus = () => readLines<Case>("found.jsonl")

/** The kernel's answers to all that plugins ask it, recorded on a host that `furnish` has given something of all. */
export const readRecorded = () => readLines<Extract<Case, { kind: "read" }>>("netlink.jsonl")

/** The call of the corpus on a plugin's ground: NETNS, ID and BIN stand for what each ground has its own of. */
export function placed(one: CallCase, { env, config, result }: Ground): CallCase {
  const { CNI_NETNS = "", CNI_CONTAINERID = "", CNI_PATH = "" } = env
  const place = (text: string) =>
    text.replaceAll("@NETNS", CNI_NETNS).replaceAll("@ID", CNI_CONTAINERID).replaceAll("@BIN", CNI_PATH)
  const own = Object.entries(one.env).map(([name, value]) => [name, place(value)])
  const stdin = place(one.stdin)
    .replaceAll('"@CONFIG"', JSON.stringify(config))
    .replaceAll('"@RESULT"', JSON.stringify(config.prevResult ?? result))
  return { ...one, env: { ...env, ...Object.fromEntries(own) }, stdin }
}
