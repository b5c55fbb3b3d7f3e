/**
 * Creates the container image from the release's files only, with all machines in one index: an OCI image layout in a
 * tar file, `cni-plugins-image-X.Y.Z.tar`. `skopeo copy oci-archive:FILE …`, `podman pull oci-archive:FILE` and `ctr
 * images import FILE` read it. The image contains /opt/cni/bin with the plugins and the tool, the agent with its
 * libraries, and the licenses, but no shell.
 *
 * OCI image specification 1.1: image-layout.md, image-index.md, manifest.md, config.md, layer.md
 */
import { createHash } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { run, type Target } from "../engine.ts"
import { about, compress, textFile } from "./place.ts"
import { layTree, type Making, type PlacedFile, type StagedFile } from "./stage.ts"

export type FilesOf = ReadonlyMap<Target, readonly StagedFile[]>

export type AgentsOf = ReadonlyMap<Target, readonly PlacedFile[]>

/**
 * Creates the image in a directory, with files dated `age` seconds after 1970. If `agents` is missing, it has no agent.
 */
export async function makeImage(
  machines: FilesOf,
  { directory, age, version = about.version }: Making,
  agents: AgentsOf = new Map(),
): Promise<void> {
  const blobs: PlacedFile[] = []
  const keep = (mediaType: string, bytes: Uint8Array): Descriptor => {
    const hexadecimal = digestOf(bytes)
    blobs.push({ path: `blobs/sha256/${hexadecimal}`, mode: 0o644, bytes })
    return { mediaType, digest: `sha256:${hexadecimal}`, size: bytes.length }
  }
  const keepJson = (mediaType: string, value: object) => keep(mediaType, Buffer.from(JSON.stringify(value)))
  const created = new Date(age * 1000).toISOString().replace(".000Z", "Z")

  const manifests: Descriptor[] = []
  for (const [target, files] of machines) {
    const tar = await tarOf([...filesInImage(files), ...(agents.get(target) ?? [])], age)
    const layer = keep(`${types}.layer.v1.tar+gzip`, compress(tar))
    const config = keepJson(`${types}.config.v1+json`, configOf(target, files, tar, { created, version }))
    const manifest = { schemaVersion: 2, mediaType: `${types}.manifest.v1+json`, config, layers: [layer] }
    manifests.push({ ...keepJson(`${types}.manifest.v1+json`, manifest), platform: platforms[target.name] })
  }
  const annotations = {
    "org.opencontainers.image.title": about.name,
    "org.opencontainers.image.description": about.summary,
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.licenses": about.licence,
    "org.opencontainers.image.created": created,
  }
  const index = { schemaVersion: 2, mediaType: `${types}.index.v1+json`, manifests, annotations }
  const name = `${about.name}:${version}`
  const named = {
    ...keepJson(`${types}.index.v1+json`, index),
    annotations: { "org.opencontainers.image.ref.name": name, "io.containerd.image.name": `localhost/${name}` },
  }
  const layout = [
    textFile("oci-layout", JSON.stringify({ imageLayoutVersion: "1.0.0" })),
    textFile("index.json", JSON.stringify({ schemaVersion: 2, manifests: [named] })),
    ...blobs,
  ]
  await Bun.write(join(directory, `${about.name}-image-${version}.tar`), await tarOf(layout, age))
}

interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
  readonly platform?: object
}

const types = "application/vnd.oci.image"
const platforms: Readonly<Record<Target["name"], object>> = {
  amd64: { architecture: "amd64", os: "linux" },
  arm64: { architecture: "arm64", os: "linux", variant: "v8" },
}

const digestOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

/** Returns the plugins and the tool in one directory, because the tool looks for plugins beside itself. */
function filesInImage(files: readonly StagedFile[]): PlacedFile[] {
  return files.flatMap((file) => {
    if (file.kind === "plugin" || file.kind === "tool") return [{ ...file, path: `opt/cni/bin/${file.name}` }]
    return /^(LICENSE|NOTICE)$/.test(file.name) ? [{ ...file, path: file.name }] : []
  })
}

function configOf(
  target: Target,
  files: readonly StagedFile[],
  layer: Uint8Array,
  { created, version }: { created: string; version: string },
): object {
  const installs = files.some(({ kind, name }) => kind === "tool" && name === "cni")
  return {
    created,
    ...platforms[target.name],
    config: {
      User: "0:0",
      ...(installs ? { Entrypoint: ["/opt/cni/bin/cni"], Cmd: ["install"] } : {}),
      Labels: { "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": about.licence },
    },
    rootfs: { type: "layers", diff_ids: [`sha256:${digestOf(layer)}`] },
    history: [{ created, created_by: `${about.name} ${version}` }],
  }
}

/** Returns a tar file with these files: sorted, owned by root, with one modification time. */
async function tarOf(files: readonly PlacedFile[], age: number): Promise<Uint8Array> {
  const scratch = mkdtempSync(join(tmpdir(), "cni-image-"))
  try {
    layTree(join(scratch, "tree"), files, age)
    const plain = ["--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", `--mtime=@${age}`]
    const names = [...new Set(files.map(({ path }) => path.split("/")[0] ?? ""))].sort()
    const tar = join(scratch, "tar")
    await run(["tar", "--create", ...plain, "--file", tar, "--directory", join(scratch, "tree"), ...names])
    return readFileSync(tar)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}
