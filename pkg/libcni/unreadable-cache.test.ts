import { expect, test } from "bun:test"
import { lstatSync, rmSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { addNetwork } from "./add.ts"
import { checkNetwork } from "./check.ts"
import { delNetwork } from "./del.ts"
import { gcNetwork } from "./gc.ts"
import { attachmentOf, failure, Lab, networkOf } from "./testing/lab.ts"

const network = networkOf([{ type: "one" }])

/** Returns a lab with an attachment whose cache file exists but cannot be read, not even by root. */
async function labWithUnreadable() {
  const lab = new Lab()
  lab.plugin("one")
  await addNetwork(lab.runtime, network, attachmentOf())
  const file = join(lab.results, "lab-c1-eth0")
  rmSync(file)
  symlinkSync(file, file) // ELOOP
  return { lab, file }
}

test.each([{ again: false }, { again: true }])(
  "ADD does not take it for an attachment that was never added: it is refused before any plugin runs, again: $again",
  async (options) => {
    const { lab, file } = await labWithUnreadable()
    using _ = lab
    const error = await failure(addNetwork(lab.runtime, network, attachmentOf(), { undo: true, ...options }))
    expect(error).toMatchObject({ code: 5, message: `Cannot read cache file "${file}"` })
    expect(lab.sequence).toEqual(["ADD one"])
  },
)

test("CHECK says that it cannot be read, not that nothing was added", async () => {
  const { lab, file } = await labWithUnreadable()
  using _ = lab
  const error = await failure(checkNetwork(lab.runtime, network, attachmentOf()))
  expect(error).toMatchObject({ code: 5, message: `Cannot read cache file "${file}"` })
})

test("DEL runs the plugins without it, and is an error: the file stays for the next try", async () => {
  const { lab, file } = await labWithUnreadable()
  using _ = lab
  const error = await failure(delNetwork(lab.runtime, network, attachmentOf()))
  expect(error).toMatchObject({ code: 5, message: `Cannot read cache file "${file}"` })
  expect(lab.sequence).toEqual(["ADD one", "DEL one"])
  expect(lab.calls.at(-1)?.stdin).not.toHaveProperty("prevResult")
  expect(lstatSync(file).isSymbolicLink()).toBe(true)
})

test("GC asks no plugin: whose attachment it is cannot be known, and it would look stale", async () => {
  const { lab, file } = await labWithUnreadable()
  using _ = lab
  const error = await failure(gcNetwork(lab.runtime, network, []))
  expect(error).toMatchObject({ code: 5, message: `Cannot read cache file "${file}"` })
  expect(lab.sequence).toEqual(["ADD one"])
})
