import { expect, test } from "bun:test"
import { cni } from "../cmd/cni/main.ts"
import { Lab } from "../pkg/libcni/testing/lab.ts"
import type { Terminal } from "./environment.ts"
import { recordingTerminal } from "./testing.ts"
import { watch } from "./watch.ts"

/** Returns what `watch` prints for a command that has these outputs in turn. */
async function watched(said: readonly { out?: string; err?: string; code?: number }[], title?: string) {
  const interrupted = new AbortController()
  const terminal = { ...recordingTerminal({}), signal: interrupted.signal }
  const shown: string[] = []
  const left = [...said]
  const run = async (to: Terminal) => {
    const next = left.shift()
    if (next === undefined) interrupted.abort()
    to.stdout(next?.out ?? "cut short")
    to.stderr(next?.err ?? "")
    return next?.code ?? 0
  }
  const to = {
    ...terminal,
    stdout: (text: string) => shown.push(text),
    stderr: (text: string | Uint8Array) => (text.length > 0 ? shown.push(`!${text}`) : 0),
  }
  return { code: await watch(run, to as never, { everyMs: 1, title }), shown }
}

test("is shown again when it has changed, and not what an interrupted look has said", async () => {
  const said = [{ out: "a" }, { out: "a" }, { out: "b" }, { out: "b", err: "warning" }, { out: "a", code: 3 }]
  expect(await watched(said)).toEqual({ code: 0, shown: ["a", "b", "b", "!warning", "a"] })
})

test("errors are shown, and it goes on; a command line that was not understood ends it", async () => {
  const said = [{ out: "", err: "no", code: 1 }, { out: "well" }, { out: "", err: "what?", code: 2 }, { out: "never" }]
  expect(await watched(said)).toEqual({ code: 2, shown: ["", "!no", "well", "", "!what?"] })
})

test("on a terminal it has a screen of its own, with a title", async () => {
  const { shown } = await watched([{ out: "a" }], "cni ps")
  // Home, and clear from there to the end: ECMA-48 8.3.57 and 8.3.39
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is expected
  expect(shown[0]).toMatch(/^\x1b\[H\x1b\[J\d{4}-\d\d-\d\dT[\d:.]+Z {2}cni ps\n\na$/)
})

test.each([
  [false, /^No attachments\n$/],
  // biome-ignore lint/suspicious/noControlCharactersInRegex: home, and clear from there, ECMA-48 8.3.57 and 8.3.39
  [true, /^\x1b\[H\x1b\[J\d{4}-\d\d-\d\dT[\d:.]+Z {2}cni ps\n\nNo attachments\n$/],
])("a command with --watch; on a terminal %p on a screen of its own", async (interactive, shown) => {
  using lab = new Lab()
  const interrupted = new AbortController()
  const said: string[] = []
  const stdout = (text: string | Uint8Array) => {
    said.push(String(text))
    interrupted.abort()
  }
  const terminal = { ...recordingTerminal({}, interactive), stdout, signal: interrupted.signal }
  const places = ["--conf-dir", lab.confDir, "--bin-dir", lab.binDir, "--cache-dir", lab.cacheDir]
  expect(await cni(["ps", "--watch", ...places], terminal)).toBe(0)
  expect(said).toHaveLength(1)
  expect(said[0]).toMatch(shown)
})

test("JSON has no screen of its own, and each look is one line", async () => {
  using lab = new Lab()
  const interrupted = new AbortController()
  const said: string[] = []
  const stdout = (text: string | Uint8Array) => {
    said.push(String(text))
    interrupted.abort()
  }
  const terminal = { ...recordingTerminal({}, true), stdout, signal: interrupted.signal }
  expect(await cni(["ps", "-w", "-o", "json", "--cache-dir", lab.cacheDir], terminal)).toBe(0)
  expect(said).toEqual([expect.stringMatching(/^\[.*\]\n$/)])
})

test.each(["0", "-1", "x"])("an interval of %p seconds is refused", async (seconds) => {
  const terminal = recordingTerminal({})
  expect(await cni(["ps", "--watch", `--interval=${seconds}`], terminal)).toBe(2)
  expect(terminal.err).toStartWith(`cni ps: cannot use --interval ${seconds}: expected a number of seconds above 0.`)
})
