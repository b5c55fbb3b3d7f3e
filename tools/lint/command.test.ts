import { expect, test } from "bun:test"
import { cni } from "../../cmd/cni/main.ts"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"
import { recordingTerminal } from "../testing.ts"

const list = (plugin: string) => `{ "cniVersion": "1.1.0", "name": "net", "plugins": [${plugin}] }`
const WARNED = list('{ "type": "loopback", "nmae": 1 }')

async function lint(files: Record<string, string>, args: string[], { colour = false, env = {} } = {}) {
  await using directory = await TemporaryDirectory.create()
  for (const [name, text] of Object.entries(files)) await Bun.write(directory.join(name), text)
  const terminal = recordingTerminal(env, true, { colour })
  const code = await cni(["lint", ...args.map((arg) => arg.replace("DIR", directory.path))], terminal)
  return { code, out: terminal.out.replaceAll(directory.path, "DIR"), err: terminal.err }
}

test("each finding is told with its place, the line, a mark below it, and what to do", async () => {
  expect(await lint({ "10-net.conflist": WARNED }, ["DIR"])).toEqual({
    code: 0,
    out: `DIR/10-net.conflist:1:75: warning: "nmae" is not a key of this plugin: it has no effect [unknown-key]
    1 | { "cniVersion": "1.1.0", "name": "net", "plugins": [{ "type": "loopback", "nmae": 1 }] }
      |                                                                           ^^^^^^
      = did you mean "name"?
1 file: 1 warning
`,
    err: "",
  })
})

test("in colours", async () => {
  const { out } = await lint({ "10-net.conflist": WARNED, "20-b.conf": "{" }, ["DIR"], { colour: true })
  expect(out).toStartWith(
    '\x1b[1mDIR/10-net.conflist:1:75:\x1b[0m \x1b[33mwarning:\x1b[0m "nmae" is not a key of this plugin: it has no effect \x1b[2m[unknown-key]\x1b[0m\n',
  )
  expect(out).toContain("\x1b[31;1merror:\x1b[0m")
})

test("what is found is counted, notes too, and decides the exit code", async () => {
  const note = list('{ "type": "loopback" }').replace("1.1.0", "1.0.0")
  const sum = async (files: Record<string, string>, ...args: string[]) => {
    const { code, out } = await lint(files, ["DIR", ...args])
    return [code, out.trimEnd().split("\n").at(-1)]
  }
  expect(await sum({})).toEqual([0, "0 files: nothing found"])
  expect(await sum({ "a.conflist": note })).toEqual([0, "1 file: 1 note"])
  expect(await sum({ "a.conflist": note }, "--strict")).toEqual([0, "1 file: 1 note"])
  expect(await sum({ "a.conflist": WARNED }, "--strict")).toEqual([3, "1 file: 1 warning"])
  const both = list('{ "type": "loopback", "nmae": 1, "nme": 2, "capabilities": 5, "dns": 5 }')
  expect(await sum({ "a.conflist": both })).toEqual([3, "1 file: 2 errors, 2 warnings"])
  expect(await sum({ "a.conflist": note, "b.conflist": note.replace("net", "b") })).toEqual([0, "2 files: 3 notes"])
})

test.each([
  [80, 0],
  [81, 61],
  [200, 180],
])("of a line whose column %d is meant, what is shown begins after %d characters", async (column, skipped) => {
  const before = list('{ "type": "loopback",').slice(0, -"] }".length)
  const line = `${before}${" ".repeat(column - before.length - 1)}"nmae": 1 }] }`
  const { out } = await lint({ "10-net.conflist": line }, ["DIR"])
  const [head, text, mark] = out.split("\n")
  expect(head).toStartWith(`DIR/10-net.conflist:1:${column}: `)
  expect(text).toBe(`    1 | ${line.slice(skipped, skipped + 100)}`)
  expect(mark).toBe(`      | ${" ".repeat(column - 1 - skipped)}^^^^^^`)
})

test("what is meant is marked as far as it is shown, tabs are as wide as blanks, and lines have their number", async () => {
  const long = `\n\n${list(`{ "type": "loopback",\t"capabilities": "${"x".repeat(150)}" }`)}`
  const [, text, mark] = (await lint({ "10-net.conflist": long }, ["DIR"])).out.split("\n")
  const shown = `    3 | ${long.trim().replace("\t", " ").slice(71, 171)}`
  expect(text).toBe(shown)
  expect(mark).toBe(`      | ${" ".repeat(19)}${"^".repeat(100)}`)
})

test("for programs: absolute files, counts, and the page of each rule", async () => {
  const { code, out } = await lint({ "10-net.conflist": WARNED }, ["DIR", "--json"])
  expect(code).toBe(0)
  expect(JSON.parse(out)).toEqual({
    files: ["DIR/10-net.conflist"],
    errors: 0,
    warnings: 1,
    notes: 0,
    findings: [
      {
        file: "DIR/10-net.conflist",
        line: 1,
        column: 75,
        severity: "warning",
        rule: "unknown-key",
        message: '"nmae" is not a key of this plugin: it has no effect',
        hint: 'did you mean "name"?',
        page: "docs/lint.md#unknown-key",
      },
    ],
  })
})

test("ranges of services are networks, and may be several", async () => {
  const ipam = '"ipam": { "type": "host-local", "subnet": "10.97.0.0/24" }'
  const files = { "10-net.conflist": list(`{ "type": "macvlan", "master": "eth0", ${ipam} }`) }
  const { code, out } = await lint(files, ["DIR", "--service-range", "fd00::/64", "--service-range", "10.96.0.0/12"])
  expect([code, out]).toEqual([
    3,
    expect.stringContaining("10.97.0.0/24 overlaps the range of service addresses, 10.96.0.0/12"),
  ])
  expect(await lint(files, ["DIR", "--service-range", "x"])).toEqual({
    code: 2,
    out: "",
    err: 'cni lint: --service-range x is not a network such as 10.96.0.0/12. "cni lint --help" shows how\n',
  })
})

test("a file by itself, and a path that does not exist", async () => {
  expect((await lint({ "10-net.conflist": WARNED, "20-b.conflist": "{" }, ["DIR/10-net.conflist"])).out).toEndWith(
    "1 file: 1 warning\n",
  )
  expect(await lint({}, ["/does/not/exist"])).toEqual({
    code: 1,
    out: "",
    err: 'cni lint: Cannot check "/does/not/exist": it does not exist\n',
  })
})
