/**
 * Creates the files of a release: `dist/cni-plugins-linux-{amd64,arm64}-vX.Y.Z.tgz`. They are unpacked like those of
 * the reference plugins (`tar -C /opt/cni/bin -xzf FILE`), with manual pages, units and schemas below `share`. Beside
 * each archive are its SHA-256, which `sha256sum -c` reads, and its bill of materials, `.cdx.json`.
 *
 *   npm run archives            both machines
 *   npm run archives -- arm64   one machine
 *   npm run dist                also the packages of release/packages.ts, and the list of all files
 *
 * The same commit gives the same bytes. The files' modification time is that of the commit, or `SOURCE_DATE_EPOCH`, so
 * that `cp -u` and `rsync -u` replace older files only.
 */
import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { root, run, type Target, targets } from "./engine.ts"
import { agentFiles } from "./release/agent.ts"
import { completeRelease, makePackages } from "./release/packages.ts"
import { findSource } from "./release/provenance.ts"
import { layTree, type PlacedFile, type StagedFile, stageFiles } from "./release/stage.ts"
import { makeBill } from "./sbom.ts"

/**
 * Creates the archive of one target's files, with its `.sha256` and `.cdx.json`, in a directory. The files are dated
 * `age` seconds after 1970. Returns the path of the archive.
 */
export async function makeArchive(
  target: Target,
  files: readonly StagedFile[],
  directory: string,
  age: number,
): Promise<string> {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const name = `cni-plugins-linux-${target.name}-v${version}.tgz`
  mkdirSync(directory, { recursive: true })
  const scratch = mkdtempSync(join(directory, ".archive-"))
  try {
    const stage = join(scratch, "stage")
    const packed = files
      .filter(({ name }) => name !== "CHANGELOG.md")
      .map((file) => ({ ...file, path: join(directories[file.kind], file.name) }))
    layTree(stage, packed, age)
    const tar = join(scratch, name.replace(/tgz$/, "tar"))
    // The archive contains no directory: unpacking one would change owner and mode of /opt/cni/bin.
    const plain = ["--format=ustar", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]
    const entries = packed.map(({ path }) => path).sort()
    await run(["tar", "--create", ...plain, `--mtime=@${age}`, "--file", tar, "--directory", stage, ...entries])
    const compressed = compressTar(readFileSync(tar))
    writeFileSync(join(scratch, name), compressed)
    const digest = createHash("sha256").update(compressed).digest("hex")
    writeFileSync(join(scratch, "bill"), await makeBill(target, { name, version, sha256: digest, age }))
    writeFileSync(join(scratch, "digest"), `${digest}  ${name}\n`)
    renameSync(join(scratch, name), join(directory, name))
    renameSync(join(scratch, "bill"), join(directory, name.replace(/tgz$/, "cdx.json")))
    renameSync(join(scratch, "digest"), join(directory, `${name}.sha256`))
    return join(directory, name)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/**
 * The archive's directory for each kind of file: the top for executables and documents, as in the reference plugins'
 * archive, and `share` for the rest.
 */
const directories: Readonly<Record<StagedFile["kind"], string>> = {
  plugin: "",
  tool: "",
  document: "",
  manual: "share/man",
  completion: "share/completions",
  unit: "share/systemd",
  schema: "share/schemas",
}

/** ustar(5): the size of a header and of a block, and where a header has the file's size, in octal digits. */
const block = 512
const sizeAt = [124, 136] as const

/** Compresses a tar file to gzip members (RFC 1952, 2.2): each header and content, but equal contents only once. */
function compressTar(tar: Buffer): Buffer {
  const members: Buffer[] = []
  const known = new Map<string, Buffer>()
  let at = 0
  while (tar[at]) {
    const size = Number.parseInt(tar.subarray(at + sizeAt[0], at + sizeAt[1]).toString(), 8)
    const content = tar.subarray(at + block, at + block + Math.ceil(size / block) * block)
    const key = createHash("sha256").update(content).digest("hex")
    const member = known.get(key) ?? gzipSync(content, { level: 9 })
    known.set(key, member)
    members.push(gzipSync(tar.subarray(at, at + block)), member)
    at += block + content.length
  }
  return Buffer.concat([...members, gzipSync(tar.subarray(at))])
}

/** Returns the modification time for the files, in seconds after 1970. */
async function ageOfSources(): Promise<number> {
  const epoch = process.env.SOURCE_DATE_EPOCH
  const seconds = epoch ?? Buffer.from(await run(["git", "log", "-1", "--format=%ct"])).toString()
  if (!/^\d+\n?$/.test(seconds)) throw new Error(`SOURCE_DATE_EPOCH is not a number of seconds: "${seconds}"`)
  return Number(seconds)
}

if (import.meta.main) {
  const [directory, age, source] = [join(root, "dist"), await ageOfSources(), await findSource(root)]
  const asked = process.argv.slice(2).filter((word) => word !== "--packages")
  const machines = new Map<Target, StagedFile[]>()
  const archives: string[] = []
  for (const name of asked.length > 0 ? asked : Object.keys(targets)) {
    const target = Object.values(targets).find((one) => one.name === name)
    if (!target) throw new Error(`Cannot build for "${name}": expected ${Object.keys(targets).join(" or ")}`)
    const files = await stageFiles(target)
    machines.set(target, files)
    archives.push(await makeArchive(target, files, directory, age))
    console.log(`Built ${archives.at(-1)}`)
  }
  if (process.argv.includes("--packages")) {
    const agents = new Map<Target, PlacedFile[]>()
    for (const target of machines.keys()) agents.set(target, await agentFiles(target))
    const packages = await makePackages(machines, directory, age, agents)
    const all = await completeRelease(archives, packages, directory, { age, source })
    console.log(`Built ${all.map((name) => join(directory, name)).join("\n  ")}`)
  }
}
