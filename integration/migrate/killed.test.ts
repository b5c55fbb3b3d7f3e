import { expect, test } from "bun:test"
import {
  Chance,
  expectUnchanged,
  isAllocationTrace,
  isLong,
  readShare,
  scaleTimeout,
  seed,
  tellFigure,
} from "../lab/mod.ts"
import { MigrateLab, network } from "./migrate-lab.ts"

/** The system calls with which `cni migrate` and its plugins change files and rules, and the maximum number of each. */
const changes = { mkdirat: 25, fchmodat: 20, fsync: 35, linkat: 17, rename: 40, unlink: 25, rmdir: 13, sendto: 150 }

const all = Object.entries(changes).flatMap(([call, count]) =>
  Array.from({ length: count }, (_, at) => ({ call, at: at + 1 })),
)
/** Three random calls for the quick form, two of which send netlink requests. The choice depends on the seed. */
const chance = new Chance(seed)
const [ofFiles, ofNetlink] = [all.filter(({ call }) => call !== "sendto"), all.filter(({ call }) => call === "sendto")]
const { from, to } = readShare()
const points = isLong
  ? all.slice(Math.round(from * all.length), Math.round(to * all.length))
  : [ofFiles, ofNetlink, ofNetlink].map((calls) => chance.of(calls))

const [bridge, , portmap, firewall] = network.plugins
/** The network without tuning, whose records stay until the pods are deleted. */
const quiet = { ...network, plugins: [bridge, portmap, firewall] }

test(
  "killed at any of its calls, or its plugins at theirs, each way ends at the next call as if it had not been, and pods go on",
  async () => {
    await using lab = await MigrateLab.create(quiet)
    await lab.remove(await lab.add(1))
    const before = await lab.snapshot()
    let kills = 0
    for (const { call, at } of points) {
      const theirs = await lab.add(1)
      const inject = ["-e", `trace=${call}`, "-e", `inject=${call}:signal=SIGKILL:when=${at}`]
      const under = ["strace", "-f", "-qq", "-o", "/dev/null", ...inject]
      const there = await lab.migrate(["--apply"], under)
      await lab.report(["--apply"])
      const ours = await lab.add(1)
      const back = await lab.migrate(["--back"], under)
      const { remains, failed } = await lab.report(["--back"])
      expect({ call, at, remains, failed }).toEqual({ call, at, remains: [], failed: [] })
      expect({ call, at, files: await lab.files() }).toEqual({ call, at, files: await lab.goFiles() })
      await lab.remove([...ours, ...theirs]) // with the Go plugins
      expectUnchanged(before, await lab.snapshot(), isAllocationTrace)
      kills += [there, back].filter(({ exitCode }) => exitCode !== 0).length
    }
    expect(kills).toBeGreaterThan(0)
    const tried = 2 * points.length
    await tellFigure({
      what: "cni migrate, killed at each of its calls, there and back",
      tried,
      held: tried,
      note: `${kills} kills`,
    })
  },
  scaleTimeout(isLong ? 7_200_000 : 900_000),
)
