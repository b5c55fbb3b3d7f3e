import { expect } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { install } from "./install.ts"
import { rollback } from "./rollback.ts"
import type { Site } from "./testing.ts"
import { uninstall } from "./uninstall.ts"
import { verify } from "./verify.ts"

/** The changes that tests of power failures interrupt, and the states that are allowed afterward. */

export const names = ["bridge", "loopback", "vrf"]

/** Returns the content of each file, without the installer's own files. */
function files(directory: string): Record<string, string> {
  const all = readdirSync(directory).filter((name) => name !== ".cni-install")
  return Object.fromEntries(all.sort().map((name) => [name, readFileSync(`${directory}/${name}`, "utf8")]))
}

/** A change of a directory, and the state before it. */
export interface Act {
  readonly before: (directory: string) => void
  readonly act: (directory: string) => void
  /** The allowed contents of each file at any time, or undefined if the file may be missing. */
  readonly may: readonly (string | undefined)[]
  /** The act of every second of the following installers, by default a rollback. The other installers install. */
  readonly next?: (directory: string) => void
}

const goBack = (directory: string) => void rollback([directory])
const leave = (directory: string) => void uninstall({ directory })
const put = (site: Site, version: number) => (directory: string) =>
  void install({ ...site.suite(`version ${version}`, names), directory })

/** Returns each kind of change, by description. */
export function actsOf(site: Site): Record<string, Act> {
  const both = (directory: string) => {
    for (const version of [1, 2]) put(site, version)(directory)
  }
  return {
    "a first installation": { before: () => {}, act: put(site, 1), may: [undefined, "version 1"] },
    "an upgrade": { before: put(site, 1), act: put(site, 2), may: ["version 1", "version 2"] },
    "a rollback": { before: both, act: goBack, may: ["version 1", "version 2"] },
    "a removal": { before: both, act: leave, may: ["version 2", undefined], next: leave },
  }
}

/** Throws unless each file is complete and has one of the allowed contents, and the next installer succeeds. */
export function requireWhole(site: Site, directory: string, at: number, { may, next = goBack }: Act): void {
  const found = files(directory)
  for (const name of names) expect(may.map((version) => version && `${version}, ${name}`)).toContain(found[name])
  expect(Object.keys(found).filter((name) => !names.includes(name))).toEqual([])
  const isManifest = readdirSync(directory).includes(".cni-install") && verify(directory) !== undefined
  if (at % 2 === 0 || !isManifest) {
    put(site, 3)(directory)
    expect([...new Set(Object.values(files(directory)).map((text) => text.slice(0, 9)))]).toEqual(["version 3"])
    expect(verify(directory)).toMatchObject({ differences: [], interrupted: undefined })
  } else {
    next(directory)
    const versions = new Set(Object.values(files(directory)).map((text) => text.slice(0, 9)))
    expect(versions.size).toBeLessThan(2) // the files of one suite, or none
  }
}
