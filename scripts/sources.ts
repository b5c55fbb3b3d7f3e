/**
 * Downloads the engine's source and the C library for arm64 for a build. They come from package registries, or from the
 * directory in `CNI_VENDOR`, which `npm run vendor` fills. Both are checked against pinned hashes.
 */
import { createHash } from "node:crypto"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { hostDirectory, run } from "./cache.ts"

/** A file in a registry, and its pinned hash. */
export interface Pinned {
  readonly name: string
  readonly version: string
  /** SHA-256 in hexadecimal digits. */
  readonly sha256: string
  /** The path in a vendored directory. */
  readonly vendored: string
  /** The file of the project that contains the hash. */
  readonly pin: string
}

/** Returns the engine's source archive as pinned in `host/engine.txt`: "PACKAGE==VERSION --hash=sha256:HASH". */
export function pinnedEngine(): Pinned {
  const pin = "engine.txt"
  const [, name = "", version = "", sha256 = ""] = readPin(pin, /^(\S+)==(\S+) --hash=sha256:([0-9a-f]{64})\n$/)
  const vendored = `engine/${name.replaceAll("-", "_")}-${version}.tar.gz`
  return { name, version, sha256, vendored, pin: `host/${pin}` }
}

/** Returns Debian's package of musl for arm64 as pinned in `host/musl-arm64.txt`: "URL SHA256:HASH". */
export function pinnedMusl(): Pinned & { readonly url: string } {
  const pin = "musl-arm64.txt"
  const form = /^(\S+\/(musl-dev)_([^_]+)_arm64\.deb) SHA256:([0-9a-f]{64})\n$/
  const [, url = "", name = "", version = "", sha256 = ""] = readPin(pin, form)
  return { url, name, version, sha256, vendored: `musl/${basename(url)}`, pin: `host/${pin}` }
}

function readPin(file: string, form: RegExp): RegExpExecArray {
  const found = form.exec(readFileSync(join(hostDirectory, file), "utf8"))
  if (!found) throw new Error(`Cannot read "host/${file}": it does not match ${form}`)
  return found
}

/**
 * Returns a pinned file's path in `CNI_VENDOR`; undefined if the variable is not set. Throws like `requireVendored`.
 */
export function findVendored(pinned: Pinned): string | undefined {
  return process.env.CNI_VENDOR ? requireVendored(process.env.CNI_VENDOR, pinned) : undefined
}

/** Returns the path of a pinned file in a vendored directory. Throws if the file is missing or has another hash. */
export function requireVendored(directory: string, { vendored, sha256, pin }: Pinned): string {
  const refuse = (reason: string) => new Error(`Cannot build from "${directory}": ${reason}`)
  const file = join(directory, vendored)
  let bytes: Uint8Array
  try {
    bytes = readFileSync(file)
  } catch (cause) {
    throw refuse(`"${vendored}", which ${pin} pins, is missing or cannot be read: ${(cause as Error).message}`)
  }
  if (createHash("sha256").update(bytes).digest("hex") !== sha256)
    throw refuse(`"${vendored}" is not the file that ${pin} pins`)
  return file
}

/**
 * A program in place of the build program of a source package. Before pip returns such a package, it asks the package's
 * build program for name and version, and installs the program's newest dependencies. With this program, it does
 * neither.
 */
const standIn = `import os
def prepare_metadata_for_build_wheel(directory, *_):
    name, version = os.environ["ENGINE"].split("==")
    information = name.replace("-", "_") + "-" + version + ".dist-info"
    os.mkdir(os.path.join(directory, information))
    with open(os.path.join(directory, information, "METADATA"), "w") as file:
        file.write(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return information
`

/** Fetches the engine's source archive from the Python package index into a directory. Returns its path. */
export async function fetchEngine(into: string): Promise<string> {
  const { name, version, pin, vendored } = pinnedEngine()
  const engine = `${name}==${version}`
  console.error(`Fetching the engine's source: ${engine}`)
  const python = `${into}.python`
  mkdirSync(join(python, "setuptools"), { recursive: true })
  writeFileSync(join(python, "setuptools/__init__.py"), "")
  writeFileSync(join(python, "setuptools/build_meta.py"), standIn)
  const from = ["--requirement", pin, "--require-hashes", "--no-deps", "--no-binary", ":all:"]
  const plain = ["--no-build-isolation", "--use-pep517", "--ignore-requires-python", "--quiet", "--dest", into]
  await run(["python3", "-m", "pip", "download", ...from, ...plain], { env: { PYTHONPATH: python, ENGINE: engine } })
  rmSync(python, { recursive: true })
  return join(into, basename(vendored))
}

/** Fetches Debian's musl for arm64 into a directory, by apt's helper, because it uses apt's proxy. Returns the path. */
export async function fetchMusl(into: string): Promise<string> {
  const { url, sha256 } = pinnedMusl()
  console.error(`Fetching musl for arm64: ${url}`)
  mkdirSync(into, { recursive: true })
  const archive = join(into, basename(url))
  await run(["/usr/lib/apt/apt-helper", "download-file", url, archive, `SHA256:${sha256}`])
  return archive
}
