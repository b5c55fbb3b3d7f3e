import { expect } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { install } from "./install.ts"
import { rollback } from "./rollback.ts"
import type { Site } from "./testing.ts"
import { uninstall } from "./uninstall.ts"
import { verify } from "./verify.ts"

/** The steps of an interrupted installer, and the possible states afterwards; for the tests of power cuts. */

/** The plugins of a suite. */
export const names = ["bridge", "loopback", "vrf"]

/** The content of each plugin, and of others' files. */
function files(directory: string): Record<string, string> {
  const all = readdirSync(directory).filter((name) => name !== ".cni-install")
  return Object.fromEntries(all.sort().map((name) => [name, readFileSync(`${directory}/${name}`, "utf8")]))
}

/** A change of a directory. */
export interface Act {
  readonly before: (directory: string) => void
  readonly act: (directory: string) => void
  /** The possible contents of a name at any moment; undefined for no file. */
  readonly may: readonly (string | undefined)[]
  /** The action of every second of the next installers, instead of an installation; a rollback by default. */
  readonly next?: (directory: string) => void
}

const goBack = (directory: string) => void rollback([directory])
const leave = (directory: string) => void uninstall({ directory })
const put = (site: Site, version: number) => (directory: string) =>
  void install({ ...site.suite(`version ${version}`, names), directory })

/** Each change, with suites of a site. */
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

/** Throws unless each name has one of the files that it may have, whole, and the next installer comes to its end. */
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
    expect(versions.size).toBeLessThan(2) // one suite, or no file
  }
}
