/**
 * Describes the build of a release: an in-toto statement with SLSA's predicate (https://slsa.dev/spec/v1.0/provenance),
 * and the sums of all files. It states only what a maintainer can know: `npm run dist` with these tools, on the
 * maintainer's machine, made these bytes from that commit. No build service confirms this, but another machine with the
 * same tools makes the same bytes.
 */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { run } from "../engine.ts"
import { about } from "./place.ts"

export const provenanceName = `${about.name}-v${about.version}.intoto.json`

export interface Source {
  /** The checked-out commit in hexadecimal digits; undefined outside a repository. */
  readonly commit: string | undefined
  /** Whether the files are those of the commit. */
  readonly isClean: boolean
}

/** Returns the state of a checkout according to git. */
export async function findSource(directory: string): Promise<Source> {
  const git = async (...args: string[]) => {
    const env = { GIT_OPTIONAL_LOCKS: "0" }
    return Buffer.from(await run(["git", "-C", directory, ...args], { env }))
      .toString()
      .trim()
  }
  try {
    const commit = await git("rev-parse", "--verify", "HEAD")
    return { commit, isClean: (await git("status", "--porcelain")) === "" }
  } catch {
    return { commit: undefined, isClean: false }
  }
}

/** The Debian packages whose programs create the files of a release. */
const toolPackages = [
  ...["gcc", "gcc-aarch64-linux-gnu", "binutils", "binutils-aarch64-linux-gnu", "musl-dev"],
  ...["tar", "dpkg", "rpm", "squashfs-tools"],
]

/**
 * Returns the statement about files of a directory as JSON, always the same text for the same files, sources and tools.
 */
export async function provenanceOf(
  directory: string,
  names: readonly string[],
  { root, source, age }: { root: string; source: Source; age: number },
): Promise<string> {
  const pinned = ["package-lock.json", "host/engine.txt"].map((name) => {
    return { name, digest: { sha256: sha256(readFileSync(join(root, name))) } }
  })
  const { commit, isClean } = source
  const statement = {
    _type: "https://in-toto.io/Statement/v1",
    subject: [...names]
      .sort()
      .map((name) => ({ name, digest: { sha256: sha256(readFileSync(join(directory, name))) } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "tag:cni-plugins.example,2026:npm-run-dist",
        externalParameters: { version: about.version, SOURCE_DATE_EPOCH: age },
        resolvedDependencies: [
          commit && isClean
            ? { name: "source", digest: { gitCommit: commit } }
            : { name: "source", uri: "file:.", annotations: { changedSince: commit ?? "unknown" } },
          ...pinned,
          ...(await installed(toolPackages)).map((uri) => ({ uri })),
        ],
      },
      runDetails: { builder: { id: "tag:cni-plugins.example,2026:a-maintainers-machine" } },
    },
  }
  return `${JSON.stringify(statement, undefined, 2)}\n`
}

/** Returns the package URLs of installed Debian packages. */
async function installed(names: readonly string[]): Promise<string[]> {
  const fields = ["db:Status-Status", "Package", "Version", "Architecture"].map((field) => `\${${field}}`)
  const listed = Buffer.from(await run(["dpkg-query", "--show", `--showformat=${fields.join(" ")}\\n`])).toString()
  return listed.split("\n").flatMap((line) => {
    const [state, name = "", version = "", machine] = line.split(" ")
    if (state !== "installed" || !names.includes(name)) return []
    return [`pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${machine}`]
  })
}

/** Returns the sums of files in a directory in the format of `sha256sum --check`. */
export function sumsOf(directory: string, names: readonly string[]): string {
  return [...names]
    .sort()
    .map((name) => `${sha256(readFileSync(join(directory, name)))}  ${name}\n`)
    .join("")
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
