import { CniError, Code } from "../pkg/types/mod.ts"
import { findDecided } from "./change.ts"
import { Layout, orRefused, requireOwnHome } from "./layout.ts"
import { type Manifest, readManifest } from "./manifest.ts"

/** A directory with an installation. */
export interface Known {
  readonly layout: Layout
  readonly manifest: Manifest
}

/** One run of an installer over directories. It changes only those that need it, in this order. */
export class InstallerRun {
  readonly directories: readonly string[]
  readonly #installed: string
  #isBegun: boolean

  /**
   * Continues a run that ended between two directories. Throws code 5 for a manifest that is damaged, or of a newer
   * version.
   */
  constructor(directories: readonly string[]) {
    this.directories = directories
    const known = knownOf(directories)
    const last = findLast(known)
    const installedIn = (one: string) => known.find(({ layout }) => layout.directory === one)?.manifest.installed
    const rest = last ? last.manifest.directories.slice(last.manifest.directories.indexOf(last.layout.directory)) : []
    this.#isBegun = rest.some((one) => directories.includes(one) && installedIn(one) !== last?.manifest.installed)
    this.#installed = last && this.#isBegun ? last.manifest.installed : after(last?.manifest.installed)
  }

  /** Whether a directory with this manifest, which needs no change, must record that it belongs to the run. */
  isToNote(earlier: Manifest | undefined): boolean {
    return this.#isBegun && earlier?.installed !== this.#installed
  }

  /** Begins to change a directory. Returns the value of `installed` for its manifest. */
  begin(): string {
    this.#isBegun = true
    return this.#installed
  }
}

/** Returns the present time, or a time after an earlier one if the clock was set back. */
function after(earlier: string | undefined): string {
  const least = earlier === undefined ? 0 : Date.parse(earlier) + 1
  return new Date(Math.max(Date.now(), least || 0)).toISOString()
}

/**
 * Returns the directories that have an installation. Throws code 5 for a manifest that is damaged, or of a newer
 * version.
 */
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

/** Returns the directory with the last installation, or the first of several. */
export function findLast(known: readonly Known[]): Known | undefined {
  return known.reduce<Known | undefined>(
    (last, one) => (last && last.manifest.installed >= one.manifest.installed ? last : one),
    undefined,
  )
}

/** Returns the manifest of a directory, or of its committed change that is not yet carried out. */
function findManifest(layout: Layout): Manifest | undefined {
  return findDecided(layout)?.manifest() ?? readManifest(layout.manifest)
}

/** Returns the manifest of a directory. Throws code 5 without an installation. */
export function requireManifest(layout: Layout): Manifest {
  const found = findManifest(layout)
  if (found) return found
  throw new CniError(Code.Io, `Cannot find the installation in "${layout.directory}": it has no manifest`, {
    details: `cni install writes ${layout.manifest}; files copied by other programs have no manifest`,
  })
}
