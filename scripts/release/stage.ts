/**
 * Collects the files of a release for one machine. Archive (`dist.ts`), .deb, .rpm, system extension and image are
 * created from this list, each with its own directories.
 */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { completionScript, shells } from "../../cmd/completion.ts"
import { manualPages } from "../../cmd/man/pages.ts"
import { schemaFiles } from "../../tools/configuration/mod.ts"
import { buildPlugins } from "../build.ts"
import { bundle } from "../bundle.ts"
import { root, type Target } from "../engine.ts"
import { buildTool } from "../native.ts"
import { notice } from "../notice.ts"
import { pluginNames, programsOf, toolPrograms } from "../programs.ts"

/** A file of a release. `name` is the path below its kind's directory: "bridge", "man8/cni-bridge.8", "bash/cni". */
export interface StagedFile {
  readonly kind: "plugin" | "tool" | "manual" | "completion" | "unit" | "schema" | "document"
  readonly name: string
  readonly mode: 0o644 | 0o755
  readonly bytes: Uint8Array
}

/** A file in a package. `path` is relative to the root and does not begin with a slash. */
export interface PlacedFile {
  readonly path: string
  readonly mode: number
  readonly bytes: Uint8Array
}

export interface Making {
  readonly directory: string
  /** The modification time of the files, in seconds after 1970. */
  readonly age: number
  /** The version in the form of packages; the project's by default. */
  readonly version?: string
}

const text = (kind: StagedFile["kind"], name: string, content: string | Uint8Array): StagedFile => ({
  kind,
  name,
  mode: 0o644,
  bytes: Buffer.from(content),
})

/** Returns the scripts that are compiled into the executables. */
export const bundles = async () => [
  await bundle("plugins", await programsOf(...pluginNames)),
  await bundle("tool", toolPrograms),
]

/** Builds and returns all files for a target, or only some of the plugins. */
export async function stageFiles(target: Target, names: readonly string[] = pluginNames): Promise<StagedFile[]> {
  const read = (name: string) => readFileSync(join(root, name))
  const documents = [
    text("document", "LICENSE", read("LICENSE")),
    text("document", "NOTICE", await notice(target, await bundles())),
    ...["README.md", "CHANGELOG.md"].map((name) => text("document", name, read(name))),
  ]
  const executables = [...(await plugins(target, names)), await tool(target)]
  const all = [
    ...units("ipam/dhcp/systemd"),
    ...units("share/systemd", /^cni-(gc|metrics|reconcile)\.|\.preset$/),
    ...schemas(),
    ...completions(),
  ]
  return [...executables, ...manual(), ...all, ...documents]
}

async function plugins(target: Target, wanted: readonly string[]): Promise<StagedFile[]> {
  const scratch = mkdtempSync(join(tmpdir(), "cni-stage-"))
  try {
    const built = join(scratch, "bin")
    await buildPlugins(built, target, "snapshot", wanted)
    const names = readdirSync(built).sort()
    return names.map((name) => ({ kind: "plugin", name, mode: 0o755, bytes: readFileSync(join(built, name)) }))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

async function tool(target: Target): Promise<StagedFile> {
  const scratch = mkdtempSync(join(tmpdir(), "cni-stage-"))
  try {
    await buildTool(join(scratch, "cni"), { target })
    return { kind: "tool", name: "cni", mode: 0o755, bytes: readFileSync(join(scratch, "cni")) }
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Returns the manual pages of the plugins and the tool. The agent's pages are only in the image. */
function manual(): StagedFile[] {
  const pages = Object.entries(manualPages()).filter(([name]) => !name.startsWith("man1/cni-agent"))
  return pages.map(([name, page]) => text("manual", name, page))
}

/** Returns the completion files for shells, with the names that the shells expect. */
function completions(): StagedFile[] {
  const names: Readonly<Record<string, string>> = { bash: "bash/cni", zsh: "zsh/_cni", fish: "fish/cni.fish" }
  return shells.map((shell) => text("completion", names[shell] ?? shell, completionScript("cni", shell) ?? ""))
}

/** Returns the units in a directory, and systemd's presets for packages. */
function units(directory: string, which = /./): StagedFile[] {
  const names = readdirSync(join(root, directory)).filter((name) => which.test(name))
  return names.sort().map((name) => text("unit", name, readFileSync(join(root, directory, name))))
}

function schemas(): StagedFile[] {
  return Object.entries(schemaFiles()).map(([name, content]) => text("schema", name, content))
}

/** Writes files below a directory, dated `age` seconds after 1970. Directories get mode 0755 despite the umask. */
export function layTree(directory: string, files: readonly PlacedFile[], age: number): void {
  const directories = new Set<string>([directory])
  for (const { path, mode, bytes } of files) {
    const at = join(directory, path)
    mkdirSync(dirname(at), { recursive: true })
    for (let above = dirname(at); above !== directory; above = dirname(above)) directories.add(above)
    writeFileSync(at, bytes)
    chmodSync(at, mode)
    utimesSync(at, age, age)
  }
  for (const one of directories) {
    chmodSync(one, 0o755)
    utimesSync(one, age, age)
  }
}
