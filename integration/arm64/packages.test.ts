/**
 * Tests packages for arm64 with a sample of the plugins, built for arm64. The tools of each distribution read its
 * packages.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, mkdir, readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { version } from "../../package.json"
import { targets } from "../../scripts/engine.ts"
import { makeDeb } from "../../scripts/release/deb.ts"
import { makeImage } from "../../scripts/release/image.ts"
import { makeRpm } from "../../scripts/release/rpm.ts"
import { type StagedFile, stageFiles } from "../../scripts/release/stage.ts"
import { makeSysext } from "../../scripts/release/sysext.ts"
import { mustRun, scaleTimeout, TemporaryDirectory } from "../lab/mod.ts"
import { samplePlugins } from "../release/sample.ts"

const { arm64 } = targets
const limitMs = scaleTimeout(600_000)

let directory: TemporaryDirectory
let files: readonly StagedFile[]

beforeAll(async () => {
  directory = await TemporaryDirectory.create("cni-arm64-packages")
  files = await stageFiles(arm64, samplePlugins)
}, limitMs)
afterAll(() => directory[Symbol.asyncDispose]())

const making = () => ({ directory: directory.path, age: 1_700_000_000 })

/** Returns `e_machine` of an ELF header; EM_AARCH64, <linux/elf-em.h> */
const machineOf = (executable: Buffer) => executable.readUInt16LE(18)
const AARCH64 = 183

/** Checks that the plugins and the tool below a root directory are the ones built for arm64, and that they run. */
async function expectExecutables(root: string, plugins: string, tools: string): Promise<void> {
  expect((await readdir(join(root, plugins))).filter((name) => name !== "cni").sort()).toEqual(samplePlugins)
  for (const { kind, name, bytes } of files.filter(({ kind }) => kind === "plugin" || kind === "tool")) {
    const placed = await readFile(join(root, kind === "plugin" ? plugins : tools, name))
    expect({ name, machine: machineOf(placed), isSame: placed.equals(bytes) }).toEqual({
      name,
      machine: AARCH64,
      isSame: true,
    })
  }
  const run = (file: string, args: string[], env: Record<string, string>) =>
    mustRun([...arm64.emulator, join(root, file), ...args], { env })
  const answer = await run(join(plugins, "bridge"), [], { CNI_COMMAND: "VERSION" })
  expect(JSON.parse(answer.stdout)).toMatchObject({ cniVersion: "1.1.0" })
  expect((await run(join(tools, "cni"), ["version"], {})).stdout).toContain(version)
}

/** Creates an empty directory below that of the test. */
async function emptyDirectory(name: string): Promise<string> {
  const path = directory.join(name)
  await mkdir(path)
  await chmod(path, 0o755)
  return path
}

test(
  "dpkg-deb unpacks the .deb",
  async () => {
    await makeDeb(arm64, files, making())
    const deb = directory.join(`cni-plugins_${version}-1_arm64.deb`)
    const field = async (name: string) => (await mustRun(["dpkg-deb", "--field", deb, name])).stdout.trim()
    expect([await field("Package"), await field("Architecture")]).toEqual(["cni-plugins", "arm64"])
    const root = await emptyDirectory("deb")
    await mustRun(["dpkg-deb", "--extract", deb, root])
    await expectExecutables(root, "usr/lib/cni", "usr/bin")
  },
  limitMs,
)

test(
  "rpm puts the .rpm into a root",
  async () => {
    await makeRpm(arm64, files, making())
    const rpm = directory.join(`cni-plugins-${version}-1.aarch64.rpm`)
    const { stdout } = await mustRun(["rpm", "--query", "--queryformat", "%{name} %{arch} %{os}", "--package", rpm])
    expect(stdout).toBe("cni-plugins aarch64 linux")
    const root = await emptyDirectory("rpm")
    const install = ["--install", "--nodeps", "--noscripts", "--ignorearch", rpm]
    await mustRun(["rpm", "--root", root, ...install])
    await mustRun(["rpm", "--root", root, "--verify", "--nodeps", "cni-plugins"])
    await expectExecutables(root, "usr/libexec/cni", "usr/bin")
  },
  limitMs,
)

test(
  "unsquashfs unpacks the system extension, which says for which machine it is",
  async () => {
    await makeSysext(arm64, files, making())
    const root = directory.join("sysext")
    const raw = directory.join(`cni-plugins-${version}-arm64.raw`)
    await mustRun(["unsquashfs", "-quiet", "-no-progress", "-dest", root, raw])
    expect(await readFile(join(root, "usr/lib/extension-release.d/extension-release.cni-plugins"), "utf8")).toBe(
      "ID=_any\nARCHITECTURE=arm64\n",
    )
    await expectExecutables(root, "usr/lib/cni", "usr/bin")
  },
  limitMs,
)

test(
  "skopeo finds the image for arm64 in the index of both, and its layer has the executables",
  async () => {
    const other = {
      ...files[0],
      kind: "tool",
      name: "cni",
      mode: 0o755,
      bytes: Buffer.from("for another machine"),
    } as const
    const machines = new Map([[targets.amd64, [other]] as const, [arm64, files] as const])
    await makeImage(machines, { directory: directory.path, age: 1_700_000_000 })
    const source = `oci-archive:${directory.join(`cni-plugins-image-${version}.tar`)}:cni-plugins:${version}`
    const copy = `dir:${await emptyDirectory("image")}`
    await mustRun(["skopeo", "copy", "--override-arch", "arm64", source, copy])
    const inspect = await mustRun(["skopeo", "inspect", "--config", copy])
    expect(JSON.parse(inspect.stdout)).toMatchObject({ architecture: "arm64", os: "linux", variant: "v8" })
    const { Layers } = JSON.parse((await mustRun(["skopeo", "inspect", copy])).stdout) as { Layers: string[] }
    expect(Layers).toHaveLength(1)
    const root = await emptyDirectory("root")
    const layer = directory.join(`image/${Layers[0]?.replace("sha256:", "")}`)
    await mustRun(["tar", "--extract", "--gzip", "--file", layer, "--directory", root])
    await expectExecutables(root, "opt/cni/bin", "opt/cni/bin")
  },
  limitMs,
)
