import { expect, test } from "bun:test"
import { recordingTerminal } from "../tools/testing.ts"
import { withProgress } from "./progress.ts"

/** Returns a function that runs until stderr has output, or once if no output is expected. */
function until(said: () => boolean): () => Promise<string> {
  return async () => {
    while (!said()) await Bun.sleep(1)
    return "done"
  }
}

test("what takes long is told on stderr, on one line, which goes at the end", async () => {
  const terminal = { ...recordingTerminal({}), watched: true }
  const spoken: string[] = []
  const stderr = (text: string | Uint8Array) => void spoken.push(String(text))
  const isSaid = () => spoken.length > 1
  expect(await withProgress("cni add net demo", { ...terminal, stderr }, until(isSaid), 1)).toBe("done")
  expect(spoken[0]).toBe("\r\x1b[Kcni add net demo: running for 1 s, Ctrl-C stops it")
  expect(spoken.at(-1)).toBe("\r\x1b[K")
})

test("what is quick says nothing, and neither does what fails at once", async () => {
  const terminal = recordingTerminal({})
  const watched = { ...terminal, watched: true }
  expect(await withProgress("x", watched, async () => 1)).toBe(1)
  const failing = withProgress("x", watched, async () => {
    throw new Error("no")
  })
  expect(failing).rejects.toThrow("no")
  await failing.catch(() => {})
  expect(terminal.err).toBe("")
})

test("nothing is told where no human reads stderr", async () => {
  const terminal = recordingTerminal({})
  const slow = async () => {
    await Bun.sleep(5)
  }
  await withProgress("x", terminal, slow, 1)
  expect(terminal.err).toBe("")
})

test("what is told once goes, too", async () => {
  const spoken: string[] = []
  const stderr = (text: string | Uint8Array) => void spoken.push(String(text))
  await withProgress(
    "x",
    { watched: true, stdout: stderr, stderr },
    until(() => spoken.length > 0),
    1,
  )
  expect(spoken.at(-1)).toBe("\r\x1b[K")
})

test("text of the command stands on a line of its own, not behind what was told", async () => {
  const spoken: string[] = []
  const write = (text: string | Uint8Array) => void spoken.push(String(text))
  const isSaid = until(() => spoken.length > 0)
  await withProgress(
    "x",
    { watched: true, stdout: write, stderr: write },
    async ({ stdout }) => {
      await isSaid()
      stdout("the first line\n")
    },
    100,
  )
  expect(spoken[spoken.indexOf("the first line\n") - 1]).toBe("\r\x1b[K")
})
