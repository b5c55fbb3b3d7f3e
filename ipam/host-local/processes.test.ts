import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { TemporaryStore } from "./testing/temporary-store.ts"

const subnets = [{ subnet: "10.0.0.0/27" }, { subnet: "fd00::/64" }] as const
const capacity = 29

/** Starts a busy process, and kills it at a random time after its first output. Returns its output. */
async function killOne(store: TemporaryStore, prefix: string): Promise<string[][]> {
  const script = join(import.meta.dir, "testing/busy-process.ts")
  const command = [process.execPath, script, store.directory, prefix, ...subnets.map(({ subnet }) => subnet)]
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "inherit" })
  let said = ""
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (said === "") setTimeout(() => child.kill("SIGKILL"), 20 + Math.random() * 200)
    said += chunk
  }
  await child.exited
  const lines = said.split("\n")
  return lines.slice(0, -1).map((line) => line.split(" ")) // the last line may be incomplete
}

test("#45 of processes that work at once and are killed at any moment, none disturbs the others", async () => {
  using store = new TemporaryStore(...subnets.map((range) => [range]))
  const all = new Set<string>()
  const live = new Map<string, string[]>()
  for (let round = 0; round < 4; round++) {
    const said = await Promise.all([0, 1, 2].map((index) => killOne(store, `p${round}${index}`)))
    for (const [what, name = "", addresses = ""] of said.flat()) {
      all.add(name)
      if (what === "added") live.set(name, addresses.split(","))
      if (what === "deleting") live.delete(name)
    }
    expect(all.size).toBeGreaterThan(round)
    const taken = [...live.values()].flat()
    expect(new Set(taken).size).toBe(taken.length)
    for (const [name, addresses] of live) {
      for (const address of addresses) expect(readFileSync(store.path(address), "latin1")).toBe(`${name}\r\neth0`)
    }
    for (const name of all) store.del(name) // like a runtime, for containers in an unknown state
    live.clear()
    expect(store.addresses()).toEqual([])
  }
  for (let count = 0; count < capacity; count++) store.add(`fill-${count}`)
  expect(() => store.add("one-more")).toThrow("no IP addresses available")
}, 900_000)
