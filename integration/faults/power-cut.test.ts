import { expect, test } from "bun:test"
import {
  Chance,
  extent,
  HostNamespace,
  isLong,
  mountOver,
  scaleTimeout,
  seed,
  succeed,
  TemporaryDirectory,
  tellFigure,
  waitFor,
} from "../lab/mod.ts"
import { type Cut, comeBack, countTorn, Leases, ours, place } from "./after-power-cut.ts"
import { disturb, FailingDisk, type fileSystems, syncAnother } from "./failing-disk.ts"

const cuts = extent(10, 100)
const onDisks: (keyof typeof fileSystems)[] = isLong ? ["ext4", "xfs"] : ["ext4"]
/**
 * Runs ADD and DEL in random order while `goesOn` returns true. `living` contains the attachments whose ADD was called
 * and whose DEL has not returned.
 */
async function work(
  leases: Leases,
  chance: Chance,
  prefix: string,
  living: Set<string>,
  goesOn: () => boolean,
): Promise<void> {
  for (let count = 0; goesOn(); count++) {
    const [first] = [...living].filter((name) => name.startsWith(prefix))
    if (first !== undefined && chance.below(8) < living.size) {
      await succeed(leases.run(ours, "DEL", first))
      living.delete(first)
    } else {
      living.add(`${prefix}-${count}`)
      await leases.add(ours, `${prefix}-${count}`)
    }
  }
}

async function cutOften(host: HostNamespace, disk: FailingDisk): Promise<Cut[]> {
  const chance = new Chance(seed)
  const leases = new Leases(host, `${place}/disk/networks`)
  const living = new Set<string>()
  const done: Cut[] = []
  let isOver = false
  const goesOn = () => !isOver && done.length < cuts
  const cutAll = async () => {
    await waitFor(() => living.size > 2, "reservations")
    while (goesOn()) {
      const isFirst = done.length === 0
      if (isFirst) await syncAnother(host, `${place}/disk`)
      for (let times = isFirst ? 0 : 1 + chance.below(4); times > 0; times--)
        await disturb(host, chance, `${place}/disk`, `${place}/disk/networks/lab`)
      const before = [...living]
      const image = await disk.cut(done.length)
      // The first image must contain file names without their data, which the journal has committed. If a sync(2) by
      // the machine came first, try again.
      if (isFirst && (await countTorn(host, image)) === 0) continue
      done.push({ image, living: before.filter((name) => living.has(name)) })
    }
  }
  const workers = ["a", "b"].map((prefix) => work(leases, chance, prefix, living, goesOn))
  try {
    await Promise.all([cutAll(), ...workers])
  } finally {
    isOver = true
    await Promise.allSettled(workers)
  }
  return done
}

test.each(onDisks)(
  `%s after each of ${cuts} power cuts amid ADDs and DELs: no address is given twice, none is lost, and upstream's plugin goes on`,
  async (fileSystem) => {
    await using host = await HostNamespace.create()
    await using disk = await FailingDisk.create(host, fileSystem, `${place}/disk`)
    const all = await cutOften(host, disk)
    await host.exec("umount", [`${place}/disk`])
    await using directory = await TemporaryDirectory.create("cni-boot")
    await Bun.write(directory.join("boot_id"), `${crypto.randomUUID()}\n`)
    await mountOver(host, "/proc/sys/kernel/random/boot_id", directory.join("boot_id"))
    let torn = 0
    for (const cut of all) torn += await comeBack(host, cut)
    expect(torn).toBeGreaterThan(0)
    await tellFigure({
      what: `power cuts on ${fileSystem}`,
      tried: all.length,
      held: all.length,
      note: `${torn} reservations torn`,
    })
  },
  scaleTimeout(600_000),
)
