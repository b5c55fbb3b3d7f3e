/**
 * Creates the bill of materials of a release (CycloneDX 1.6): the parts of an executable, with versions, hashes,
 * licenses and origins, and the tools that built it. `npm run archives` writes the bill beside each archive. Scanners
 * such as `grype` or `trivy sbom` read it.
 */
import { readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { Enums, Models, Serialize, Spec } from "@cyclonedx/cyclonedx-library"
import { engineSource, hashOf, root, run, type Target } from "./engine.ts"
import { muslOf } from "./musl.ts"
import { pinnedEngine, pinnedMusl } from "./sources.ts"

export interface Archive {
  readonly name: string
  readonly version: string
  /** SHA-256 in hexadecimal digits. */
  readonly sha256: string
  /** The modification time of its files, in seconds after 1970. */
  readonly age: number
}

/** The Debian packages of the compilers, by target. */
const compilers: Readonly<Record<Target["name"], string>> = { amd64: "gcc", arm64: "gcc-aarch64-linux-gnu" }

/** Returns the bill as JSON text, always the same text for the same archive on the same machine. */
export async function makeBill(target: Target, archive: Archive): Promise<string> {
  const product = describe(Enums.ComponentType.Application, "cni-plugins", {
    version: archive.version,
    hash: ["SHA-256", archive.sha256],
    licence: "Apache-2.0",
  })
  product.properties.add(new Models.Property("archive", archive.name))
  const inside = [await readEngine(), readHashes(), await readMusl(target)]
  const bill = new Models.Bom({ serialNumber: serialNumber(archive) })
  bill.metadata.timestamp = new Date(archive.age * 1000)
  bill.metadata.component = product
  bill.metadata.tools.components.add(await readCompiler(target))
  for (const component of inside) {
    bill.components.add(component)
    product.dependencies.add(component.bomRef)
  }
  const normalize = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6)
  const serializer = new Serialize.JsonSerializer(normalize)
  return `${serializer.serialize(bill, { sortLists: true, space: 2 })}\n`
}

/** Returns the engine as pinned in `host/engine.txt`, or as the packager's own source. */
async function readEngine(): Promise<Models.Component> {
  const type = Enums.ComponentType.Library
  const { name, version, sha256 } = pinnedEngine()
  if (process.env.CNI_ENGINE_SOURCE) {
    const header = readFileSync(join(await engineSource(), "quickjs.h"), "utf8")
    const parts = ["MAJOR", "MINOR", "PATCH"].map((part) => new RegExp(`QJS_VERSION_${part} (\\d+)`).exec(header)?.[1])
    return describe(type, name, { version: parts.join("."), licence: "MIT" })
  }
  const purl = `pkg:pypi/${name}@${version}`
  return describe(type, name, { version, purl, hash: ["SHA-256", sha256], licence: "MIT" })
}

/** Returns the compiler: a Debian package, or the packager's program. */
async function readCompiler(target: Target): Promise<Models.Component> {
  const { compiler, isOwn } = await muslOf(target)
  const type = Enums.ComponentType.Application
  if (!isOwn) return readPackage(compilers[target.name], type)
  return describe(type, basename(compiler), { version: await said([compiler, "-dumpversion"]) })
}

/** Returns the only npm package in the executable, as pinned in the lock file. */
function readHashes(): Models.Component {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"))
  const { version, integrity, license } = packages["node_modules/@noble/hashes"]
  const sha512 = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex")
  const purl = `pkg:npm/%40noble/hashes@${version}`
  return describe(Enums.ComponentType.Library, "@noble/hashes", {
    version,
    purl,
    hash: ["SHA-512", sha512],
    licence: license,
  })
}

/** Returns the C library: for amd64 the installed one, for arm64 that in `host/musl-arm64.txt`, or the packager's. */
async function readMusl(target: Target): Promise<Models.Component> {
  const [type, licence] = [Enums.ComponentType.Library, "MIT"]
  const { libraries, isOwn } = await muslOf(target)
  if (isOwn) {
    const member = await said(["ar", "p", join(libraries, "libc.a"), "version.lo"])
    return describe(type, "musl", { version: /\d+\.\d+\.\d+/.exec(member)?.[0] ?? "", licence })
  }
  if (target.name === "amd64") return readPackage("musl-dev", type, licence)
  const { version, sha256 } = pinnedMusl()
  const purl = `pkg:deb/debian/musl-dev@${encodeURIComponent(version)}?arch=arm64`
  return describe(type, "musl-dev", { version, purl, hash: ["SHA-256", sha256], licence })
}

async function readPackage(name: string, type: Enums.ComponentType, licence?: string): Promise<Models.Component> {
  const [, version = ""] = (await said(["dpkg-query", "--show", name])).split("\t")
  return describe(type, name, { version, purl: `pkg:deb/debian/${name}@${encodeURIComponent(version)}`, licence })
}

/** Returns the output of a program. */
async function said(command: readonly string[]): Promise<string> {
  return Buffer.from(await run(command))
    .toString("latin1")
    .trim()
}

interface Description {
  version: string
  purl?: string
  hash?: [keyof typeof Enums.HashAlgorithm, hexadecimal: string]
  /** The license's name in the SPDX list. */
  licence?: string | undefined
}

function describe(type: Enums.ComponentType, name: string, { version, purl, hash, licence }: Description) {
  return new Models.Component(type, name, {
    bomRef: name,
    version,
    ...(purl === undefined ? {} : { purl }),
    hashes: new Models.HashDictionary(hash ? [[Enums.HashAlgorithm[hash[0]], hash[1]]] : []),
    licenses: new Models.LicenseRepository(licence === undefined ? [] : [new Models.SpdxLicense(licence)]),
  })
}

/** Returns a UUID for the archive: version 8, from the hash (RFC 9562, section 5.8). */
function serialNumber({ sha256 }: Archive): string {
  const digits = hashOf("bill of materials", sha256)
  const parts = [digits.slice(0, 8), digits.slice(8, 12), `8${digits.slice(13, 16)}`, `8${digits.slice(17, 20)}`]
  return `urn:uuid:${[...parts, digits.slice(20, 32)].join("-")}`
}
