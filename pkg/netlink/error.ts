import { errnoName } from "../libc/mod.ts"

/** A request that the kernel refused. It stays inside the process: `CniError` is what leaves it. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError"
  /** "EEXIST" */
  readonly errno: string
  /** The kernel's own words from the extended acknowledgement, where it gave any. */
  readonly words: string | undefined

  /** Whether it was tried again and again, each time in vain for a reason that passes: others keep changing the same. */
  readonly willPass: boolean

  constructor(what: string, errno: number | string, words?: string, willPass = false) {
    const name = typeof errno === "number" ? errnoName(errno) : errno
    super(`${what}: ${words ? `${words} (${name})` : name}`)
    this.errno = name
    this.words = words
    this.willPass = willPass
  }
}
