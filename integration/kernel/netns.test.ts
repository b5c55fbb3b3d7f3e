import { expect, test } from "bun:test"
import { join } from "node:path"
import { HostNamespace, mustRun } from "../lab/mod.ts"

const door = join(import.meta.dir, "../../pkg/netns/mod.ts")

/** What a program sees that enters a namespace: `report` runs inside, and is a line of JavaScript. */
async function inside(path: string, report: string): Promise<{ before: string; within: string; after: string }> {
  const script = `
    const { Netns } = await import(${JSON.stringify(door)})
    const { readlinkSync } = await import("node:fs")
    const where = () => readlinkSync("/proc/thread-self/ns/net")
    using sandbox = Netns.open(${JSON.stringify(path)})
    const before = where()
    let within = ""
    try { within = sandbox.run(() => { ${report} }) } catch (error) { within = String(error.message) }
    console.log(JSON.stringify({ before, within, after: where() }))`
  return JSON.parse((await mustRun([process.execPath, "-e", script])).stdout)
}

test("a function runs in the namespace, and the thread comes back, also when it throws", async () => {
  await using host = await HostNamespace.create()
  const there = (await mustRun(["ip", "netns", "exec", host.name, "readlink", "/proc/self/ns/net"])).stdout.trim()
  const calm = await inside(host.path, "return where()")
  expect(calm.within).toBe(there)
  expect(calm.before).not.toBe(there)
  expect(calm.after).toBe(calm.before)
  const thrown = await inside(host.path, 'throw new Error("within " + where())')
  expect(thrown.within).toBe(`within ${there}`)
  expect(thrown.after).toBe(thrown.before)
})
