/** The data about a package in the lock file. */
export interface Locked {
  readonly version: string
  readonly integrity: string
}

/** Returns the name of a package's archive, as given by `npm pack`. */
export function archiveOf(path: string, known: Locked): string
/** Returns the packages of a lock file that this machine needs: each package's path in the project, and its data. */
export function packagesOf(lock: unknown): [path: string, known: Locked][]
/** Throws if a package's archive is missing in a vendored directory, or does not have the hash in the lock file. */
export function checkArchive(directory: string, path: string, known: Locked): void
