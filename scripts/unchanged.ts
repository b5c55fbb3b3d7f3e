/** Reports whether a build would produce the existing files again, so that a test command can skip the build. */
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { execa } from "execa"
import { muslCompiler } from "./engine.ts"

/** The record of a build, stored beside its files. */
interface Stamp {
  readonly inputs: string
  /** The digest of each file that the build made, by path below the directory of the record. */
  readonly outputs: Readonly<Record<string, string>>
}

const digestOf = (...parts: (string | Uint8Array)[]) => {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(part).update("\0")
  return hash.digest("hex")
}

/**
 * Returns the digest of every possible input of a build in a checkout: each file that git tracks or would track, the
 * compiler, Bun, and the settings. Returns undefined if git cannot list the files.
 */
export async function inputsOf(checkout: string, ...settings: string[]): Promise<string | undefined> {
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
  const { stdout, exitCode } = await execa("git", list, { cwd: checkout, reject: false })
  if (exitCode !== 0 || stdout === "") return undefined
  const compiler = await execa(muslCompiler, ["--version"], { reject: false })
  const env = Object.entries(process.env).filter(([name]) => /^(CNI_|SOURCE_DATE_EPOCH$)/.test(name))
  const parts: (string | Uint8Array)[] = [Bun.version, compiler.stdout ?? "", JSON.stringify(env.sort()), ...settings]
  for (const name of stdout.split("\0").filter(Boolean).sort()) {
    const path = join(checkout, name)
    if (existsSync(path) && statSync(path).isFile()) parts.push(name, readFileSync(path))
  }
  return digestOf(...parts)
}

const stampOf = (directory: string) => join(directory, ".built")

/** Returns the digests of files, including those in subdirectories, by path. */
function outputsOf(directory: string, names: readonly string[]): Record<string, string> {
  const isFile = (name: string) => statSync(join(directory, name)).isFile()
  const inside = (name: string) => readdirSync(join(directory, name), { recursive: true, encoding: "utf8" })
  const all = names.flatMap((name) => (isFile(name) ? [name] : inside(name).map((entry) => join(name, entry))))
  const files = all.filter(isFile).sort()
  return Object.fromEntries(files.map((file) => [file, digestOf(readFileSync(join(directory, file)))]))
}

/** Reports whether the last build into a directory had these inputs, and its files are unchanged. */
export function isUnchanged(directory: string, names: readonly string[], inputs: string | undefined): boolean {
  try {
    const stamp = JSON.parse(readFileSync(stampOf(directory), "utf8")) as Stamp
    return inputs === stamp.inputs && Bun.deepEquals(stamp.outputs, outputsOf(directory, names))
  } catch {
    return false
  }
}

/** Records the inputs of a build's files. If `inputs` is undefined, removes the record. */
export function noteBuild(directory: string, names: readonly string[], inputs: string | undefined): void {
  if (inputs === undefined) rmSync(stampOf(directory), { force: true })
  else writeFileSync(stampOf(directory), JSON.stringify({ inputs, outputs: outputsOf(directory, names) }))
}
