/** What a lock file knows of a package. */
export interface Locked {
  readonly version: string
  readonly integrity: string
}

/** The archive of a package, as `npm pack` names it. */
export function archiveOf(path: string, known: Locked): string
/** The packages of a lock file that this machine gets: the path of each in the project, and what is known of it. */
export function packagesOf(lock: unknown): [path: string, known: Locked][]
/** Throws when a vendored directory lacks the archive of a package, or has other bytes than the lock file pins. */
export function checkArchive(directory: string, path: string, known: Locked): void
