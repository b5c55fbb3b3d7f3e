import { decodeUtf8, encodeUtf8 } from "../pkg/engine/mod.ts"
import { createFile, findFile, syncPath } from "../pkg/libc/mod.ts"
import {
  CniError,
  Code,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseJson,
  printJson,
} from "../pkg/types/mod.ts"

/** The version of the format of manifests and lists of steps. Documents with a larger number are rejected. */
export const FORMAT = 1

export interface Placed {
  /** The file's content as in `contentOf`. */
  readonly content: string
  /** The version that the file prints: "cni-plugins v0.1.0". */
  readonly version?: string
  /** The content of the file of another program that was replaced and is kept. */
  readonly displaced?: string
}

type Placements = Readonly<Record<string, Placed>>

/** The current installation in a directory, and the previous one. */
export interface Manifest {
  /** The number of installations in this directory so far. */
  readonly generation: number
  /**
   * The start time of the installer's run, by Date.toISOString. Equal in all directories of the run; later runs are
   * later.
   */
  readonly installed: string
  /** All directories of the installer's run in order, including this one. Empty after a rollback. */
  readonly directories: readonly string[]
  /** The source directory of the files. */
  readonly from: string
  readonly files: Placements
  /** The state before this installation, which a rollback restores. Undefined after a rollback. */
  readonly before?: Before | undefined
}

/** The properties of a manifest that a rollback restores. */
export type Before = Pick<Manifest, "installed" | "from" | "files">

/** Returns a manifest, or `undefined` if missing. Throws error code 5 for a damaged manifest or a newer version's. */
export function readManifest(path: string): Manifest | undefined {
  const root = readDocument(path, "manifest")
  if (root === undefined) return undefined
  const { generation, before } = root
  const damaged = (what: string) => brokenDocument(path, "manifest", `"${what}" is missing, or of another type`)
  if (typeof generation !== "number" || !Number.isSafeInteger(generation)) throw damaged("generation")
  const suite = (at: JsonObject) => ({
    installed: requireText(at.installed, () => damaged("installed")),
    from: requireText(at.from, () => damaged("from")),
    files: parseFiles(at.files, () => damaged("files")),
  })
  if (before !== undefined && !isJsonObject(before)) throw damaged("before")
  const directories = Array.isArray(root.directories) ? root.directories.filter((one) => typeof one === "string") : []
  return { generation, directories, ...suite(root), before: before && suite(before) }
}

function parseFiles(value: JsonValue | undefined, damaged: () => CniError): Placements {
  if (!isJsonObject(value)) throw damaged()
  const files: Record<string, Placed> = {}
  for (const [name, placed] of Object.entries(value)) {
    if (!isFileName(name) || !isJsonObject(placed)) throw damaged()
    const { version, displaced } = placed
    files[name] = {
      content: requireText(placed.content, damaged),
      ...(version === undefined ? {} : { version: requireText(version, damaged) }),
      ...(displaced === undefined ? {} : { displaced: requireText(displaced, damaged) }),
    }
  }
  return files
}

function requireText(value: JsonValue | undefined, damaged: () => CniError): string {
  if (typeof value !== "string") throw damaged()
  return value
}

/** Reports whether a manifest's name is safe as a part of a path: it names a file in the directory itself. */
export function isFileName(name: string): boolean {
  return name !== "" && !name.startsWith(".") && !name.includes("/") && !name.includes("\0")
}

/** Returns a JSON document of an installer, or `undefined` if it does not exist. */
export function readDocument(path: string, what: string): JsonObject | undefined {
  const bytes = findFile(path)
  if (bytes === undefined) return undefined
  const root = parse(path, what, decodeUtf8(bytes))
  const { format } = root
  if (format === FORMAT) return root
  const isNewer = typeof format === "number" && format > FORMAT
  throw isNewer
    ? new CniError(Code.Io, `Cannot use the ${what} "${path}": a newer version of this installer wrote it`, {
        details: "use that version, which can also restore an older suite: cni install --rollback",
      })
    : brokenDocument(path, what, '"format" is missing')
}

function parse(path: string, what: string, text: string): JsonObject {
  try {
    const value = parseJson(text, what)
    if (isJsonObject(value)) return value
  } catch (cause) {
    throw brokenDocument(path, what, "it is not JSON", cause)
  }
  throw brokenDocument(path, what, "expected a JSON object")
}

export function brokenDocument(path: string, what: string, reason: string, cause?: unknown): CniError {
  return new CniError(Code.Io, `Cannot use the ${what} "${path}": ${reason}`, {
    ...(cause === undefined ? {} : { cause }),
    details: "remove its directory and install with --adopt: existing files then count as files of other programs",
  })
}

/** Writes a new JSON document and syncs it to disk. Throws `EEXIST` if the file exists. */
export function writeDocument(path: string, content: object): void {
  createFile(path, encodeUtf8(`${printJson({ format: FORMAT, ...content })}\n`), 0o644)
  syncPath(path)
}
