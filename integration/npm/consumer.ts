import { existsSync } from "node:fs"
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { lock } from "proper-lockfile"
import { makePackage } from "../../scripts/package.ts"
import { mustRun, programEnv, TemporaryDirectory } from "../lab/mod.ts"

export const project = join(import.meta.dir, "../..")

/** The releases of Node that the package supports. npm's packages of these versions contain Node's executables. */
export const nodeReleases = ["20", "22", "24"] as const

/** The releases of TypeScript that the package's types support, including the newest. */
export const compilers = { "5.4": "5.4", "5.9": "5.9", newest: "latest" } as const

/**
 * The environment of a consumer's programs. It includes this process's variables, because npm needs a home directory
 * and the machine's registry settings.
 */
const env = Object.fromEntries(
  Object.entries({ ...process.env, ...programEnv, PATH: `${process.env.PATH}:${programEnv.PATH}` }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  ),
)

/** A new project with the package installed from its archive, as a user of npm does it. */
export class Consumer implements AsyncDisposable {
  readonly path: string
  readonly #directory: TemporaryDirectory

  private constructor(directory: TemporaryDirectory) {
    this.#directory = directory
    this.path = directory.path
  }

  /** Runs `npm init` and `npm install ./libcni-*.tgz`, and installs further packages. */
  static async create(...packages: string[]): Promise<Consumer> {
    const directory = await TemporaryDirectory.create("cni-npm")
    try {
      const archive = await makePackage(join(directory.path, "archive"))
      const consumer = new Consumer(directory)
      await chmod(directory.path, 0o755) // also for tests that run as another user
      await consumer.run("npm", "init", "--yes")
      await consumer.run("npm", "pkg", "set", "type=module")
      await consumer.run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", archive, ...packages)
      return consumer
    } catch (error) {
      await directory[Symbol.asyncDispose]()
      throw error
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#directory[Symbol.asyncDispose]()
  }

  file(name: string): string {
    return join(this.path, name)
  }

  async write(name: string, text: string): Promise<string> {
    await mkdir(dirname(this.file(name)), { recursive: true })
    await writeFile(this.file(name), text)
    return this.file(name)
  }

  /** Copies a file to the project, and replaces some texts in it. */
  async copy(from: string, name: string, replaced: Readonly<Record<string, string>> = {}): Promise<string> {
    let text = await readFile(join(project, from), "utf8")
    for (const [old, other] of Object.entries(replaced)) text = text.replaceAll(old, other)
    return await this.write(name, text)
  }

  async run(program: string, ...args: string[]): Promise<string> {
    const command = ["sh", "-c", 'cd "$1"; shift; exec "$@"', "sh", this.path, program, ...args]
    return (await mustRun(command, { env })).stdout
  }

  /** Writes a TypeScript file to the project as JavaScript. Another test checks its types. */
  async transpile(name: string, typescript: string): Promise<string> {
    return await this.write(name, new Bun.Transpiler({ loader: "ts" }).transformSync(typescript))
  }
}

/** The engines that run a consumer's programs: the command for each name. */
export type Engines = Readonly<Record<string, string>>

export const engineNames = [...nodeReleases.map((release) => `Node ${release}`), "Bun"]

/**
 * The directory of the installed releases of Node, half a gigabyte, which concurrent test files and later runs share.
 */
const nodesDirectory = join(project, "dist/node-releases")

/** Installs the releases of Node from npm's registry. Returns these engines and Bun. */
export async function installEngines(): Promise<Engines> {
  const programOf = (release: string) => join(nodesDirectory, `node_modules/node${release}/bin/node`)
  await mkdir(nodesDirectory, { recursive: true })
  const unlock = await lock(nodesDirectory, { retries: { retries: 1200, minTimeout: 250, maxTimeout: 250 } })
  try {
    const missing = nodeReleases.filter((release) => !existsSync(programOf(release)))
    const packages = missing.map((release) => `node${release}@npm:node-linux-${process.arch}@${release}`)
    const install = ["npm", "install", "--prefix", nodesDirectory, "--no-audit", "--no-fund", "--loglevel=error"]
    if (missing.length > 0) await mustRun([...install, ...packages], { env })
  } finally {
    await unlock()
  }
  const nodes = nodeReleases.map((release) => [`Node ${release}`, programOf(release)])
  return { ...Object.fromEntries(nodes), Bun: process.execPath }
}

export const compilerPackages = [
  ...Object.entries(compilers).map(([name, release]) => `typescript-${name}@npm:typescript@${release}`),
  "@types/node@22",
]
