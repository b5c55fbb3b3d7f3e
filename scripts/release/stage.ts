/**
 * The files of a release for one machine, before each kind of package puts them into its own directories: archive (`dist.ts`),
 * .deb, .rpm, system extension and image are made of the same list.
 */
import {
  chmodSync,
  existsSync,
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
import { manualPages } from "../../cmd/man/pages.ts"
import { buildPlugins } from "../build.ts"
import { engineSource, root, type Target } from "../engine.ts"
import { muslOf } from "../musl.ts"

/** A file of a release. Its name is the path below the directory of its kind: "bridge", "man8/cni-bridge.8", "cni-dhcp.service". */
export interface StagedFile {
  readonly kind: "plugin" | "tool" | "manual" | "completion" | "unit" | "document"
  readonly name: string
  readonly mode: 0o644 | 0o755
  readonly bytes: Uint8Array
}

/** A file of a package: its path from the root, without a slash before it. */
export interface PlacedFile {
  readonly path: string
  readonly mode: number
  readonly bytes: Uint8Array
}

const text = (kind: StagedFile["kind"], name: string, content: string | Uint8Array): StagedFile => ({
  kind,
  name,
  mode: 0o644,
  bytes: Buffer.from(content),
})

/** Builds everything for a target, and returns it. */
export async function stageFiles(target: Target): Promise<StagedFile[]> {
  const documents = [
    text("document", "LICENSE", await licences(target)),
    ...["README.md", "CHANGELOG.md"].map((name) => text("document", name, readFileSync(join(root, name)))),
  ]
  return [...(await plugins(target)), ...manual(), ...units(), ...documents]
}

async function plugins(target: Target): Promise<StagedFile[]> {
  const scratch = mkdtempSync(join(tmpdir(), "cni-stage-"))
  try {
    const built = join(scratch, "bin")
    await buildPlugins(built, target)
    const names = readdirSync(built).sort()
    return names.map((name) => ({ kind: "plugin", name, mode: 0o755, bytes: readFileSync(join(built, name)) }))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** The manual pages of plugins. Those of tools belong to packages that have the tools. */
function manual(): StagedFile[] {
  const pages = Object.entries(manualPages()).filter(([name]) => name.startsWith("man8/"))
  return pages.map(([name, page]) => text("manual", name, page))
}

/** The units of plugins' daemons. Those of tools belong to packages that have the tools. */
function units(): StagedFile[] {
  const directory = join(root, "ipam/dhcp/systemd")
  return readdirSync(directory)
    .sort()
    .map((name) => text("unit", name, readFileSync(join(directory, name))))
}

/** Our licence, and the terms of what else is in an executable. */
async function licences(target: Target): Promise<string> {
  const engine = readFileSync(join(await engineSource(), "quickjs.c"), "utf8")
  const { terms } = await muslOf(target)
  if (!existsSync(terms)) throw new Error(`Cannot tell the terms of the C library: "${terms}" is missing`)
  const parts = [
    ["the engine, QuickJS-ng", (/^\/\*\n(.*?)\*\//s.exec(engine)?.[1] ?? "").replace(/^ \* ?/gm, "")],
    ["@noble/hashes", readFileSync(join(root, "node_modules/@noble/hashes/LICENSE"), "utf8")],
    ["the C library", readFileSync(terms, "utf8")],
  ] as const
  const own = readFileSync(join(root, "LICENSE"), "utf8")
  return [own, ...parts.map(([what, terms]) => `\n---- Also inside: ${what} ----\n\n${terms}`)].join("")
}

/** Writes files below a directory, `age` seconds after 1970, with directories of mode 0755: the same for every umask. */
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
