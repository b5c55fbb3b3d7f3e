import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { TemporaryDirectory } from "./temporary-directory.ts"

const makeAnother = `
  const { TemporaryDirectory } = await import(process.argv[1])
  const made = await TemporaryDirectory.createLocked("cni-locked", process.argv[2])
  await Bun.write(made.join("data"), "much")
  console.log(made.path)
  await new Promise(() => setInterval(() => {}, 1000))`

test("a locked directory of a killed process is removed by the next process, one of a living process stays", async () => {
  await using parent = await TemporaryDirectory.create()
  const start = async () => {
    const module = `${import.meta.dir}/temporary-directory.ts`
    const child = Bun.spawn([process.execPath, "-e", makeAnother, module, parent.path], { stdout: "pipe" })
    const { value } = await child.stdout.getReader().read()
    return { child, path: new TextDecoder().decode(value).trim() }
  }
  const killed = await start()
  const alive = await start()
  expect([existsSync(killed.path), existsSync(alive.path)]).toEqual([true, true])
  killed.child.kill("SIGKILL")
  await killed.child.exited
  {
    await using own = await TemporaryDirectory.createLocked("cni-locked", parent.path)
    expect([existsSync(killed.path), existsSync(alive.path), existsSync(own.path)]).toEqual([false, true, true])
  }
  alive.child.kill("SIGKILL")
  await alive.child.exited
})
