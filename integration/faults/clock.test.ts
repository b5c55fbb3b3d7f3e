import { expect, test } from "bun:test"
import { expectUnchanged, extent, isAllocationTrace, type PluginResult, Stage, takeSnapshot } from "../lab/mod.ts"
import { between, endedBefore, expectClean, useBetween } from "./between.ts"
import { useTally } from "./figures.ts"

useBetween()
const count = useTally()

const store = "/var/lib/cni/networks/lab"

test.each(["2050-01-01", "1971-01-01"])(
  "host-local: a store whose files are of %s, as after a leap of the clock, keeps its leases and gives each address once",
  async (date) => {
    await using stage = await Stage.create("host-local")
    await stage.settle()
    const [first, second, third] = [await stage.attach(), await stage.attach(), await stage.attach()]
    const before = await takeSnapshot(stage.host)
    const leased: string[] = []
    for (const { attachment } of [first, second, third]) {
      const { ips } = (await attachment.add()) as PluginResult
      leased.push(...ips.map(({ address }) => address))
      await stage.host.exec("sh", ["-c", `find ${store} -exec touch -d ${date} {} +`])
    }
    expect(new Set(leased).size).toBe(3)
    for (const { attachment } of [first, second, third]) await attachment.del()
    expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
  },
)

test("host-local: drafts that another call takes for abandoned, as after a leap of the clock, cost no lease", async () => {
  await using stage = await Stage.create("host-local")
  await stage.settle()
  const { attachment, pod } = await stage.attach()
  const before = await takeSnapshot(stage.host)
  const step = extent(17, 1)
  for (let nth = 1, goOn = true; goOn; nth += step) {
    await count("host-local: an ADD whose drafts are removed before its n-th system call", async () => {
      const under = between(nth, "run", `rm -f ${store}/.index/new/*`)
      const output = await attachment.run("ADD", {}, { under })
      goOn = output.exitCode < endedBefore
      const exitCode = goOn ? output.exitCode : output.exitCode - endedBefore
      await expectClean({ ...output, exitCode })
      if (exitCode === 0) {
        const [{ address = "" } = {}] = (output.json as PluginResult).ips
        const lease = await stage.host.exec("cat", [`${store}/${address.replace(/\/.*/, "")}`])
        expect(lease.stdout).toContain(pod.name)
      }
      await attachment.del()
    })
  }
  expectUnchanged(before, await takeSnapshot(stage.host), isAllocationTrace)
})
