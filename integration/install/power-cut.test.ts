import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs"
import { install, rollback, uninstall, verify } from "../../install/mod.ts"
import { Site } from "../../install/testing.ts"
import { engine } from "../../pkg/engine/mod.ts"
import { FailingDisk, mountImage } from "../faults/failing-disk.ts"
import { extent, HostNamespace, isLong, patient, tellFigure } from "../lab/mod.ts"

/** A directory that is the host's alone. */
const place = "/run/cni"
const names = ["bridge", "loopback", "vrf"]
const calls = engine as unknown as Record<string, (...values: unknown[]) => number>
const changing = ["open", "write", "fsync", "linkat", "mkdirat", "fchmodat", "lsetxattr", "rename", "unlink", "rmdir"]
/** CI cuts after every so many calls, beginning with another one for each act. */
const step = extent(4, 1)

let host: HostNamespace
let site: Site
beforeAll(async () => {
  host = await HostNamespace.create()
  site = new Site()
}, patient(60_000))
afterAll(async () => {
  site[Symbol.dispose]()
  await host[Symbol.asyncDispose]()
})

const suite = (version: number) => site.suite(`version ${version}`, names)
const on = (mounted: string) => host.file(`${place}/${mounted}/bin`)

/** The content of each plugin, and of others' files. */
function files(directory: string): Record<string, string> {
  const all = readdirSync(directory).filter((name) => name !== ".cni-install")
  return Object.fromEntries(all.sort().map((name) => [name, readFileSync(`${directory}/${name}`, "utf8")]))
}

/** Another program's fsync(2): the journal takes all names along, of files that nothing has synced no bytes. */
function syncAnother(): void {
  const file = openSync(host.file(`${place}/disk/other`), "w")
  writeSync(file, "another")
  fsyncSync(file)
  closeSync(file)
}

/** Has ext4 write no file by itself because a program looks as if it had forgotten fsync(2), ext4(5). */
async function withoutGuesses(fileSystem: string): Promise<void> {
  if (fileSystem === "ext4") await host.exec("mount", ["-o", "remount,noauto_da_alloc", `${place}/disk`])
}

/** Does something on a disk, and cuts the power after the calls that change it: what the disk has then. */
function cutting(disk: FailingDisk, act: () => unknown, start: number): string[] {
  const images: string[] = []
  const originals = { ...calls }
  let made = 0
  for (const name of changing) {
    const call = calls[name]
    if (call === undefined) continue
    calls[name] = (...values) => {
      const answer = call(...values)
      if (made++ % step !== start % step) return answer
      syncAnother()
      images.push(disk.cutNow(images.length))
      return answer
    }
  }
  try {
    act()
  } finally {
    Object.assign(calls, originals)
  }
  syncAnother()
  return [...images, disk.cutNow(images.length)]
}

/** Runs `look` with each image as a disk after the boot, whose journal the kernel has replayed. */
async function afterEach(images: readonly string[], look: (directory: string, at: number) => void): Promise<void> {
  for (const [at, image] of images.entries()) {
    await mountImage(host, image, `${place}/back`)
    try {
      look(on("back"), at)
    } finally {
      await host.exec("umount", [`${place}/back`])
    }
  }
}

interface Act {
  readonly before: (directory: string) => void
  readonly act: (directory: string) => void
  /** What a name may have at any moment; undefined: no file. */
  readonly may: readonly (string | undefined)[]
  /** What every second of the next installers does, instead of an installation: a rollback, unless this is said. */
  readonly next?: (directory: string) => void
}
const goBack = (directory: string) => void rollback({ directory })
const leave = (directory: string) => void uninstall({ directory })
const put = (version: number) => (directory: string) => void install({ ...suite(version), directory })
const both = (directory: string) => {
  for (const version of [1, 2]) put(version)(directory)
}
const acts: Record<string, Act> = {
  "a first installation": { before: () => {}, act: put(1), may: [undefined, "version 1"] },
  "an upgrade": { before: put(1), act: put(2), may: ["version 1", "version 2"] },
  "a rollback": { before: both, act: goBack, may: ["version 1", "version 2"] },
  "a removal": { before: both, act: leave, may: ["version 2", undefined], next: leave },
}

/** Throws unless each name has one of the files that it may have, whole, and the next installer comes to its end. */
function requireWhole(directory: string, at: number, { may, next = goBack }: Act): void {
  const found = files(directory)
  for (const name of names) expect(may.map((version) => version && `${version}, ${name}`)).toContain(found[name])
  expect(Object.keys(found).filter((name) => !names.includes(name))).toEqual([])
  const isManifest = readdirSync(directory).includes(".cni-install") && verify(directory) !== undefined
  if (at % 2 === 0 || !isManifest) {
    put(3)(directory)
    expect([...new Set(Object.values(files(directory)).map((text) => text.slice(0, 9)))]).toEqual(["version 3"])
    expect(verify(directory)).toMatchObject({ differences: [], interrupted: undefined })
  } else {
    next(directory)
    const versions = new Set(Object.values(files(directory)).map((text) => text.slice(0, 9)))
    expect(versions.size).toBeLessThan(2) // one suite, or no file
  }
}

const onDisks = isLong ? (["ext4", "xfs"] as const) : (["ext4"] as const)
describe.each(onDisks)("on %s, power cuts after the calls of", (fileSystem) => {
  test.each(Object.entries(acts))(
    "%s leave whole files, and the next installer comes to its end",
    async (what, one) => {
      const { before, act } = one
      await using disk = await FailingDisk.create(host, fileSystem, `${place}/disk`)
      await host.exec("mkdir", [`${place}/disk/bin`])
      await withoutGuesses(fileSystem)
      before(on("disk"))
      await host.exec("sync", ["--file-system", `${place}/disk`])
      const images = cutting(disk, () => act(on("disk")), what.length)
      await host.exec("umount", [`${place}/disk`])
      await afterEach(images, (directory, at) => requireWhole(directory, at, one))
      expect(images.length).toBeGreaterThan(isLong ? 20 : 5)
      await tellFigure({ what: `power cuts of ${what}, ${fileSystem}`, tried: images.length, held: images.length })
    },
    patient(300_000),
  )
})
