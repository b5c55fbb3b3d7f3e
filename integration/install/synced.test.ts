import { expect, test } from "bun:test"
import { readFile, writeFile } from "node:fs/promises"
import { basename, dirname, join } from "node:path"
import { runProgram } from "../lab/mod.ts"
import { Suites } from "./suites.ts"

/** Matches the paths in a traced call: those in quotes, and that of its descriptor. */
const call = /^(\w+)\((?:\d+<([^>]*)>)?(.*)\) += 0?/
const calls = ["openat", "write", "fsync", "mkdirat", "linkat", "rename", "unlink", "rmdir"]

/** Yields, for each traced call, the changed files and directories that were not synced before the call. */
function* unsyncedIn(trace: string): Generator<{ call: string; paths: readonly string[]; unsynced: Set<string> }> {
  let unsynced = new Set<string>()
  for (const line of trace.split("\n").filter((line) => !line.includes(" = -1 "))) {
    const [, name = "", descriptor = "", rest = ""] = call.exec(line) ?? []
    const paths = [...rest.matchAll(/"([^"]*)"/g)].map(([, path = ""]) => path)
    yield { call: name, paths, unsynced: new Set(unsynced) }
    if (name === "write") unsynced.add(descriptor)
    if (name === "fsync") unsynced.delete(descriptor)
    if (name === "openat" && !line.includes("O_CREAT")) continue
    if (name === "rename") {
      const [from = "", to = ""] = paths
      unsynced = new Set(
        [...unsynced].map((path) => (`${path}/`.startsWith(`${from}/`) ? to + path.slice(from.length) : path)),
      )
    }
    if (name === "linkat") paths.shift()
    if (!["write", "fsync"].includes(name)) for (const path of paths) unsynced.add(dirname(path))
  }
}

test("each step of an installation is on the disk before the next one begins: files, and the directories of their names", async () => {
  await using suites = await Suites.create()
  await suites.install("A")
  await writeFile(join(suites.bin, "vrf"), "theirs")
  const [file, home] = [suites.path("trace"), join(suites.bin, ".cni-install")]
  const strace = ["strace", "-y", "-qq", "-o", file, "-e", `trace=${calls.join(",")}`]
  expect(await runProgram([...strace, ...suites.command("B", "--adopt")])).toMatchObject({ exitCode: 0 })
  const ours = (paths: Iterable<string>) => [...paths].filter((path) => path.startsWith(suites.bin))
  const steps: string[] = []
  for (const { call, paths, unsynced } of unsyncedIn(await readFile(file, "latin1"))) {
    const [path = "", to = ""] = paths
    const isFirst = dirname(to) === suites.bin && steps.at(-1) === "decide"
    const known = { ready: "decide", "manifest.json": "note", "steps.json": "forget the steps" }
    const now = isFirst ? "carry out" : Object.entries(known).find(([name]) => basename(to || path) === name)?.[1]
    if (now === undefined || !["rename", "unlink"].includes(call)) continue
    steps.push(now)
    // After a power cut, files that were moved out of "ready" may be there again. They are not used then.
    const open = ours(unsynced).filter(
      (one) => now === "decide" || now === "carry out" || !one.startsWith(`${home}/ready`),
    )
    expect([now, ...open]).toEqual([now])
  }
  expect(steps).toEqual(["decide", "carry out", "note", "forget the steps"])
})
