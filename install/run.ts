import { CniError, Code } from "../pkg/types/mod.ts"
import { findDecided } from "./change.ts"
import { Layout, orRefused, requireOwnHome } from "./layout.ts"
import { type Manifest, readManifest } from "./manifest.ts"

/** A directory with an installation, and its manifest. */
export interface Known {
  readonly layout: Layout
  readonly manifest: Manifest
}

/** A run of the installer over `directories`. The manifests of all directories that it changes get the same time. */
export class InstallerRun {
  readonly directories: readonly string[]
  readonly #installed: string
  #isBegun: boolean

  /** Creates or continues an interrupted run. Throws error code 5 for a damaged manifest or a newer version's. */
  constructor(directories: readonly string[]) {
    this.directories = directories
    const known = knownOf(directories)
    const last = findLast(known)
    const installedIn = (one: string) => known.find(({ layout }) => layout.directory === one)?.manifest.installed
    const rest = last ? last.manifest.directories.slice(last.manifest.directories.indexOf(last.layout.directory)) : []
    this.#isBegun = rest.some((one) => directories.includes(one) && installedIn(one) !== last?.manifest.installed)
    this.#installed = last && this.#isBegun ? last.manifest.installed : after(last?.manifest.installed)
  }

  /** Reports whether a directory that needs no change must still record that it is part of the run. */
  isToNote(earlier: Manifest | undefined): boolean {
    return this.#isBegun && earlier?.installed !== this.#installed
  }

  /** Begins the change of a directory. Returns the value of `installed` for the directory's manifest. */
  begin(): string {
    this.#isBegun = true
    return this.#installed
  }
}

/** Returns the current time or, if the clock was set back, a time after `earlier`. */
function after(earlier: string | undefined): string {
  const least = earlier === undefined ? 0 : Date.parse(earlier) + 1
  return new Date(Math.max(Date.now(), least || 0)).toISOString()
}

/** Returns the directories with an installation. Throws error code 5 for a damaged manifest or a newer version's. */
export function knownOf(directories: readonly string[]): Known[] {
  return directories.flatMap((directory): Known[] => {
    const layout = new Layout(directory)
    const manifest = orRefused(layout, () => {
      requireOwnHome(layout)
      return findManifest(layout)
    })
    return manifest ? [{ layout, manifest }] : []
  })
}

/** Returns the directory with the last installation. If several have it, returns the first. */
export function findLast(known: readonly Known[]): Known | undefined {
  return known.reduce<Known | undefined>(
    (last, one) => (last && last.manifest.installed >= one.manifest.installed ? last : one),
    undefined,
  )
}

/** Returns the manifest of a committed change that is not yet carried out, or else the directory's manifest. */
function findManifest(layout: Layout): Manifest | undefined {
  return findDecided(layout)?.manifest() ?? readManifest(layout.manifest)
}

/** Returns the manifest of a directory. Throws error code 5 if it has no installation. */
export function requireManifest(layout: Layout): Manifest {
  const found = findManifest(layout)
  if (found) return found
  throw new CniError(Code.Io, `Cannot find the installation in "${layout.directory}": it has no manifest`, {
    details: `cni install writes ${layout.manifest}; files copied by other programs have no manifest`,
  })
}
