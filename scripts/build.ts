import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { copyExecutable } from "../cmd/install/copy.ts"
import { replaceLink } from "../cmd/install/link.ts"
import { pluginNames, toolNames } from "../cmd/plugins.ts"

const root = join(import.meta.dir, "..")

/**
 * Compiles one TypeScript file and all that it imports into an executable. Like `bun build --compile --bytecode --minify
 * --format=esm --sourcemap --compile-jit-policy=30 --no-compile-autoload-dotenv --no-compile-autoload-bunfig
 * --compile-exec-argv="--disallow-code-generation-from-strings=strict --no-addons --no-ffi-cc" MAIN BUNDLE...`.
 *
 * - each of `bundles`, with all that it imports, is one more file inside the executable, at its path relative to the
 *   main file's directory, as `.js`. No import in them may be lazy: one that is makes every module of every bundle lazy
 * - bytecode: what is not called costs little, what is called is not parsed
 * - autoloading closed: no `.env` or `bunfig.toml` of the caller's working directory runs as root
 * - the last three flags: no code from strings, no addons, no C compiler inside
 *
 * The executable appears under its name by a rename, complete. Never strip it: the program sits behind Bun's sections.
 * The file's name is baked in: the same sources and name give the same bytes.
 *
 * @example
 * await compile("bench/empty.ts", "dist/bench/empty") // what every start costs at least
 */
export async function compile(main: string, outfile: string, bundles: readonly string[] = []): Promise<void> {
  mkdirSync(dirname(outfile), { recursive: true })
  const scratch = mkdtempSync(join(dirname(outfile), ".build-"))
  try {
    const built = join(scratch, basename(outfile))
    await Bun.build({
      entrypoints: [main, ...bundles],
      root: dirname(main),
      target: "bun",
      format: "esm",
      minify: true,
      bytecode: true,
      sourcemap: "linked", // embedded, for file and line in stack traces; no cost at start
      define: { "process.env.NODE_ENV": '"production"' },
      compile: {
        outfile: built,
        autoloadDotenv: false,
        autoloadBunfig: false,
        execArgv: ["--disallow-code-generation-from-strings=strict", "--no-addons", "--no-ffi-cc"],
        jitPolicy: 30, // a plugin lives for milliseconds: starting the compiler's threads alone takes 0.5 ms of them
      },
    })
    const whole = `${built}.whole`
    copyExecutable(built, whole) // the bundler writes in small pieces
    renameSync(whole, outfile)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Builds `dist/cni`, `dist/cnitool` and, in `dist/bin`, one hard link for each plugin. */
export async function build(): Promise<void> {
  const executable = join(root, "dist/cni")
  const bin = join(root, "dist/bin")
  const entries = [...pluginNames, ...toolNames, "version"].map((name) => join(root, "cmd/entries", `${name}.ts`))
  await compile(join(root, "cmd/main.ts"), executable, entries)
  replaceLink(executable, join(root, "dist/cnitool"))
  mkdirSync(bin, { recursive: true })
  for (const name of pluginNames) replaceLink(executable, join(bin, name))
  for (const name of readdirSync(bin)) if (!pluginNames.includes(name)) rmSync(join(bin, name))
}

if (import.meta.main) {
  await build()
  console.log(`Built dist/cni, dist/cnitool and dist/bin: ${pluginNames.join(", ")}`)
}
