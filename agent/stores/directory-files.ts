import { decodeUtf8, sha256 } from "../../pkg/engine/mod.ts"
import { findFile } from "../../pkg/libc/mod.ts"
import type { Kind, Records } from "../records.ts"
import { type Stored, StoreError } from "../store.ts"

/** One record, as its file has it: JSON. */
export interface RecordFile<K extends Kind> {
  readonly key: string
  /** The number of the change that has written it. */
  readonly revision: string
  readonly value: Records[K]
}

/** A name has at most 255 bytes. */
const NAME_MAX = 200

/** The name of a key's file. No two keys have one: it is the key with escapes, or the digest of a long one. */
export function fileNameOf(key: string): string {
  const name = encodeURIComponent(key)
  return name.length <= NAME_MAX ? `${name}.json` : `${sha256(key)}.digest`
}

/** Reads the file of a record; `undefined` if it does not exist. Throws `StoreError` if its content is not a record. */
export function readRecord<K extends Kind>(kind: K, path: string): Stored<K> | undefined {
  const bytes = findFile(path)
  if (!bytes) return undefined
  try {
    const { key, revision, value } = JSON.parse(decodeUtf8(bytes)) as RecordFile<K>
    return { kind, key, value, version: revision, revision: BigInt(revision) }
  } catch (cause) {
    throw new StoreError(`Cannot read "${path}": it is not a record`, "refused", cause)
  }
}
