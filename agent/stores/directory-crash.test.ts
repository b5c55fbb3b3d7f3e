import { expect, test } from "bun:test"
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { waitFor } from "../../integration/lab/mod.ts"
import type { Want } from "../records.ts"
import { DirectoryStore } from "./directory.ts"

const parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

/** A directory for the time of a test. */
function temporary() {
  const path = mkdtempSync(join(parent, "agent-directory-crash-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

const want = (at: number): Want => ({ pool: "pods", owner: { name: `n${at}`, uid: "u", machineId: "" } })

test("drafts of killed processes are no records, and go with the next start", async () => {
  using at = temporary()
  const first = new DirectoryStore(at.path)
  const made = await first.create("want", "pods/n1", want(1))
  for (const left of ["want/.draft-2", "want/.draft-9", ".draft-revision", ".draft-cluster"])
    writeFileSync(join(at.path, left), "{")
  expect((await first.list("want")).map(({ key }) => key)).toEqual(["pods/n1"])
  const second = new DirectoryStore(at.path)
  expect(readdirSync(join(at.path, "want"))).toHaveLength(1)
  expect(await second.identity()).toEqual(await first.identity())
  expect(made && (await second.remove(made))).toBe(true)
  expect(await second.create("want", "pods/n1", want(1))).toBeDefined()
})

test("a process that is killed at any moment leaves whole records, and versions that never come again", async () => {
  using at = temporary()
  const store = new DirectoryStore(at.path)
  const source = `
    import { DirectoryStore } from ${JSON.stringify(join(import.meta.dir, "directory.ts"))}
    const store = new DirectoryStore(${JSON.stringify(at.path)})
    console.log("begun")
    for (let at = 0; ; at++) {
      const value = { pool: "pods", owner: { name: "n" + (at % 5), uid: "u".repeat(at % 300), machineId: "" } }
      const key = "pods/n" + (at % 5)
      const found = await store.find("want", key)
      if (!found) await store.create("want", key, value)
      else if (at % 3 === 0) await store.remove(found)
      else await store.replace(found, value)
    }`
  const script = join(at.path, "writer.ts")
  writeFileSync(script, source)
  let revision = 0n
  for (let round = 0; round < 6; round++) {
    const writer = Bun.spawn([process.execPath, script], { stdout: "pipe", stderr: "inherit" })
    await writer.stdout.getReader().read()
    const begun = (await store.identity()).revision
    await waitFor(
      async () => (await store.identity()).revision >= begun + BigInt(20 + round * 7),
      "changes of the writer",
    )
    writer.kill("SIGKILL")
    await writer.exited
    const records = await store.list("want")
    for (const { key, value } of records) expect(key).toBe(`pods/${value.owner.name}`)
    const identity = await store.identity()
    expect(identity.revision > revision).toBe(true)
    for (const record of records) expect(record.revision <= identity.revision).toBe(true)
    revision = identity.revision
    const made = await store.create("want", `pods/n${round + 10}`, want(round + 10))
    expect(made !== undefined && made.revision > revision).toBe(true)
  }
}, 900_000)
