/** The lock file's data about a package. */
export interface Locked {
  readonly version: string
  readonly integrity: string
}

/** The archive of a package, as `npm pack` names it. */
export function archiveOf(path: string, known: Locked): string
/** The packages of a lock file for this machine: the path of each in the project, and its data. */
export function packagesOf(lock: unknown): [path: string, known: Locked][]
/** Throws when a vendored directory lacks the archive of a package, or has other bytes than the lock file pins. */
export function checkArchive(directory: string, path: string, known: Locked): void
