import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import {
  createFile,
  findFile,
  findStat,
  isErrno,
  makeDirectories,
  readDirectory,
  type Stat,
  tryRemoveDirectory,
  tryUnlink,
} from "../libc/mod.ts"
import { findExposure, ownerOfRecord, recordName } from "../records/mod.ts"
import { messageOf, type Owner, ownerComment, staleOf } from "../types/mod.ts"
import type { BackendName } from "./backend.ts"

/** Where ADD notes which rules it makes, by the inode of the host's namespace and by feature. It goes with the boot, as the rules do. */
const DIRECTORY = "/run/cni/rules"
/** The thread's own namespace, where the rules are: others may have the same /run, and containers of the same names. */
const OWN = "/proc/thread-self/ns/net"
/** Notes of a release that has written them differently are not read. */
const FORM = 1
/** As many are read: more than a node has containers, and some tenths of a second. */
const NOTES_MAX = 4000

/** Each time, a DEL beside this ADD has removed the directory. */
const ATTEMPTS = 10

/** The container that rules are for: they are made again as long as its namespace is at this path. */
export interface Container {
  readonly netns: string
  readonly namespace: { readonly identity: string | undefined }
  readonly log: (line: string) => void
}

/** The rules of one attachment, as ADD has been asked for them. */
export interface Note<Spec> {
  readonly spec: Spec
  readonly asked: BackendName | undefined
}

/**
 * Notes of the rules that ADD makes, one file for each attachment. The next ADD that finds the table deleted makes the
 * rules again from the notes. Nothing else uses them; a note that cannot be written, or is torn, counts as absent.
 */
export class RuleNotes<Spec extends { readonly owner: Owner }> {
  readonly #root: string
  readonly #feature: string
  #host: Stat | undefined

  constructor(feature: string, directory = DIRECTORY) {
    this.#root = directory
    this.#feature = feature
  }

  /** Of the namespace that the thread is in when this is asked for first. */
  get #ofHost(): string {
    this.#host ??= findStat(OWN)
    return `${this.#root}/${this.#host?.inode ?? 0}`
  }

  get #directory(): string {
    return `${this.#ofHost}/${this.#feature}`
  }

  #pathOf(owner: Owner): string {
    return `${this.#directory}/${recordName(owner)}`
  }

  /** Before the rules are made. Returns the note of an earlier ADD of the same attachment, for `putBack`. Never throws. */
  write({ netns, namespace, log }: Container, { spec, asked }: Note<Spec>): Uint8Array | undefined {
    const path = this.#pathOf(spec.owner)
    const host = identityOf(this.#host)
    const text = JSON.stringify({ form: FORM, host, netns, identity: namespace.identity, asked, spec })
    try {
      return this.#create(path, encodeUtf8(text))
    } catch (error) {
      this.remove(spec.owner) // what a full disk has torn
      if (!isErrno(error, "EROFS", "EACCES", "EPERM"))
        // as for a user without root's files: there are no notes at all
        log(`Cannot note the rules in "${path}", so that no other ADD makes them again: ${messageOf(error)}`)
      return undefined
    }
  }

  /** Makes the directory where it is not there, or a DEL has removed it. Returns what the file had before. */
  #create(path: string, bytes: Uint8Array): Uint8Array | undefined {
    let former: Uint8Array | undefined
    for (let attempt = 1; ; attempt++) {
      try {
        createFile(path, bytes)
        return former
      } catch (error) {
        if (attempt === ATTEMPTS) throw error
        if (isErrno(error, "ENOENT")) makeDirectories(this.#directory, 0o700)
        else if (isErrno(error, "EEXIST")) {
          former ??= findFile(path)
          tryUnlink(path)
        } else throw error
      }
    }
  }

  /** The reverse of `write`, which has returned `former`. Never throws. */
  putBack(owner: Owner, former: Uint8Array | undefined): void {
    if (former === undefined) this.remove(owner)
    else {
      try {
        this.#create(this.#pathOf(owner), former)
      } catch {
        this.remove(owner)
      }
    }
  }

  has(owner: Owner): boolean {
    return findStat(this.#pathOf(owner)) !== undefined
  }

  /**
   * Call it before the rules are removed, because an ADD that restores them checks for the note afterwards. Returns
   * whether the note existed. Never throws: where a note cannot be removed it could not be written.
   */
  remove(owner: Owner): boolean {
    let isRemoved = false
    try {
      isRemoved = tryUnlink(this.#pathOf(owner))
      // Others have notes there, mostly.
      for (const directory of [this.#directory, this.#ofHost, this.#root]) if (!tryRemoveDirectory(directory)) break
    } catch {}
    return isRemoved
  }

  /** Removes those of a network's attachments that are not in the list of valid ones. Never throws. */
  gc(network: string, valid: readonly Owner[]): void {
    const isStale = staleOf(network, valid)
    for (const owner of this.#owners()) if (isStale(ownerComment(owner))) this.remove(owner)
  }

  #owners(): Owner[] {
    try {
      return readDirectory(this.#directory).flatMap((name) => ownerOfRecord(name) ?? [])
    } catch {
      return []
    }
  }

  /**
   * The notes of all others whose rules are in this namespace and whose containers live, in the order of their ADDs; of the first alone
   * that has `sample` as its backend. A directory that others than root can change is not believed. Throws `SyscallError`.
   */
  readOthers(own: Owner, log: (line: string) => void, sample?: Pick<Note<Spec>, "asked">): Note<Spec>[] {
    const owners = this.#owners().filter((owner) => ownerComment(owner) !== ownerComment(own))
    if (owners.length === 0) return []
    const exposure = findExposure(this.#directory)
    if (exposure !== undefined) {
      log(`Cannot trust "${this.#directory}", and makes no rules of others again: ${exposure}`)
      return []
    }
    if (owners.length > NOTES_MAX) log(`There are ${owners.length} notes of rules, and ${NOTES_MAX} are read`)
    const host = identityOf(this.#host)
    const found: { note: Note<Spec>; written: bigint }[] = []
    for (const owner of owners.slice(0, NOTES_MAX)) {
      const path = this.#pathOf(owner)
      const written = findStat(path)?.modified
      const note = written === undefined ? undefined : readNote<Spec>(findFile(path), owner, host)
      if (!note || written === undefined || (sample && note.asked !== sample.asked)) continue
      found.push({ note, written })
      if (sample) break
    }
    return found.sort((a, b) => Number(a.written - b.written)).map(({ note }) => note)
  }
}

/** A note of this namespace, of a container that lives; undefined for another one, and for what is torn. */
function readNote<Spec>(bytes: Uint8Array | undefined, owner: Owner, host: string): Note<Spec> | undefined {
  try {
    const read = JSON.parse(decodeUtf8(bytes ?? new Uint8Array()), asBytes)
    if (read.form !== FORM || read.host !== host || ownerComment(read.spec.owner) !== ownerComment(owner))
      return undefined
    return identityOf(findStat(read.netns)) === read.identity ? { spec: read.spec, asked: read.asked } : undefined
  } catch {
    return undefined
  }
}

/** "device:inode", as `NamespaceFile.identity` has it. */
function identityOf(found: Stat | undefined): string {
  return found ? `${found.device}:${found.inode}` : ""
}

/** Bytes of addresses are written as `{"0":10,"1":1,…}`: a function that is called for each value would be dear in every ADD. */
function asBytes(_key: string, value: unknown): unknown {
  const isBytes = typeof value === "object" && value !== null && !Array.isArray(value) && "0" in value
  return isBytes ? Uint8Array.from(Object.values(value)) : value
}
