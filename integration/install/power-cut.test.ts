import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs"
import { actsOf, requireWhole } from "../../install/power-cut.fixture.ts"
import { Site } from "../../install/testing.ts"
import { engine } from "../../pkg/engine/mod.ts"
import { FailingDisk, mountImage } from "../faults/failing-disk.ts"
import { extent, HostNamespace, isLong, scaleTimeout, tellFigure } from "../lab/mod.ts"

/** A directory that is private to the host. */
const place = "/run/cni"
const calls = engine as unknown as Record<string, (...values: unknown[]) => number>
const changing = ["open", "write", "fsync", "linkat", "mkdirat", "fchmodat", "lsetxattr", "rename", "unlink", "rmdir"]
/** The number of changes between two cuts. `npm test` starts at a different change for each action. */
const step = extent(4, 1)

let host: HostNamespace
let site: Site
beforeAll(async () => {
  host = await HostNamespace.create()
  site = new Site()
}, scaleTimeout(60_000))
afterAll(async () => {
  site[Symbol.dispose]()
  await host[Symbol.asyncDispose]()
})

const on = (mounted: string) => host.file(`${place}/${mounted}/bin`)

/**
 * Calls fsync(2) on another program's file. The journal then commits all file names, but not the data of other files.
 */
function syncAnother(): void {
  const file = openSync(host.file(`${place}/disk/other`), "w")
  writeSync(file, "another")
  fsyncSync(file)
  closeSync(file)
}

/** Disables ext4's automatic write of replaced files, which hides a missing fsync(2); `auto_da_alloc` in ext4(5). */
async function withoutGuesses(fileSystem: string): Promise<void> {
  if (fileSystem === "ext4") await host.exec("mount", ["-o", "remount,noauto_da_alloc", `${place}/disk`])
}

/** Runs an action on a disk, and copies the disk after each system call that changes it. Returns the images. */
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

/** Calls `look` for each image, mounted as after a boot: the kernel has replayed its journal. */
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

const kinds = ["a first installation", "an upgrade", "a rollback", "a removal"]
const onDisks = isLong ? (["ext4", "xfs"] as const) : (["ext4"] as const)
describe.each(onDisks)("on %s, power cuts after the calls of", (fileSystem) => {
  test.each(kinds)(
    "%s leave whole files, and the next installer comes to its end",
    async (what) => {
      const one = actsOf(site)[what] ?? expect.unreachable()
      const { before, act } = one
      await using disk = await FailingDisk.create(host, fileSystem, `${place}/disk`)
      await host.exec("mkdir", [`${place}/disk/bin`])
      await withoutGuesses(fileSystem)
      before(on("disk"))
      await host.exec("sync", ["--file-system", `${place}/disk`])
      const images = cutting(disk, () => act(on("disk")), what.length)
      await host.exec("umount", [`${place}/disk`])
      await afterEach(images, (directory, at) => requireWhole(site, directory, at, one))
      expect(images.length).toBeGreaterThan(isLong ? 20 : 5)
      await tellFigure({ what: `power cuts of ${what}, ${fileSystem}`, tried: images.length, held: images.length })
    },
    scaleTimeout(300_000),
  )
})
