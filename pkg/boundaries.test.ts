import { describe, expect, test } from "bun:test"
import { dirname, join, relative } from "node:path"

const root = join(import.meta.dir, "..")

const everyPackage = /^pkg\//

/** The packages whose `mod.ts` a package may import. The key is a package, or the first folder of `plugins/bridge`. */
const mayImport: Readonly<Record<string, readonly string[] | RegExp>> = {
  "pkg/engine": [],
  "pkg/types": ["pkg/engine"],
  "pkg/libc": ["pkg/engine"],
  "pkg/config": ["pkg/types"],
  "pkg/netlink": ["pkg/engine", "pkg/types", "pkg/libc"],
  "pkg/netns": ["pkg/types", "pkg/libc", "pkg/netlink"],
  "pkg/flight": ["pkg/engine", "pkg/types", "pkg/libc"],
  "pkg/metrics": [],
  "pkg/sysctl": ["pkg/libc"],
  "pkg/undo": ["pkg/types", "pkg/libc"],
  "pkg/records": ["pkg/types", "pkg/libc"],
  "pkg/nftables": ["pkg/engine", "pkg/libc", "pkg/netlink", "pkg/types"],
  "pkg/iptables": ["pkg/engine", "pkg/libc", "pkg/types", "pkg/netlink", "pkg/undo", "pkg/nftables"],
  "pkg/dbus": ["pkg/engine", "pkg/libc"],
  "pkg/conntrack": ["pkg/engine", "pkg/libc", "pkg/netlink", "pkg/types"],
  "pkg/rules": [
    "pkg/engine",
    "pkg/types",
    "pkg/libc",
    "pkg/netlink",
    "pkg/records",
    "pkg/undo",
    "pkg/nftables",
    "pkg/iptables",
  ],
  "pkg/masquerade": [
    "pkg/conntrack",
    "pkg/engine",
    "pkg/types",
    "pkg/libc",
    "pkg/netlink",
    "pkg/netns",
    "pkg/undo",
    "pkg/nftables",
    "pkg/iptables",
    "pkg/rules",
  ],
  "pkg/ip": ["pkg/engine", "pkg/types", "pkg/libc", "pkg/netlink", "pkg/netns", "pkg/sysctl", "pkg/undo"],
  "pkg/devices": [
    "pkg/config",
    "pkg/engine",
    "pkg/ip",
    "pkg/libc",
    "pkg/netlink",
    "pkg/netns",
    "pkg/records",
    "pkg/sysctl",
    "pkg/types",
    "pkg/undo",
  ],
  "pkg/attachment": everyPackage,
  "pkg/invoke": ["pkg/engine", "pkg/types", "pkg/libc"],
  "pkg/ipam": ["pkg/types", "pkg/invoke"],
  "pkg/skel": [
    "pkg/engine",
    "pkg/types",
    "pkg/libc",
    "pkg/config",
    "pkg/netns",
    "pkg/invoke",
    "pkg/flight",
    "pkg/records",
  ],
  "pkg/loop": ["pkg/engine", "pkg/libc"],
  "pkg/libcni": ["pkg/engine", "pkg/types", "pkg/libc", "pkg/loop", "pkg/invoke", "pkg/records"],
  "pkg/npm": ["pkg/invoke", "pkg/libcni", "pkg/skel", "pkg/types", "pkg/undo"],
  plugins: everyPackage,
  ipam: everyPackage,
  meta: everyPackage,
  install: ["pkg/engine", "pkg/libc", "pkg/types"],
  agent: /^pkg\/|^ipam\/host-local$/,
  suite: /^(pkg|plugins|ipam|meta)\//,
  tools: /^(pkg|plugins|ipam|meta|tools)\/|^(suite|agent|install|tools)$/,
  cmd: /./,
  "integration/lab": /^(pkg\/|suite$|cmd$)/,
  integration: /./,
  bench: ["agent", "cmd", "install", "ipam/host-local", "suite", "integration/lab"],
  scripts: /^(pkg\/|suite$|install$|tools(\/|$)|cmd$|integration\/lab$)/,
}

/** Packages that only the tests of a package may import. The tests of a tool run it by its command line. */
const testsMayImport: Readonly<Record<string, readonly string[]>> = {
  agent: ["integration/lab"],
  tools: ["cmd", "integration/lab"],
}

/** Reports whether a package runs in a plugin's process, with only the language and the functions of pkg/engine. */
const isPlugin = (room: string) =>
  /^(pkg|plugins|ipam|meta|install)\b/.test(room) && !["pkg/libcni", "pkg/loop", "pkg/npm"].includes(room)

/**
 * Reports whether a file is of the tool, which may use promises. The agent is not part of it, because it runs on Bun.
 */
const isTool = (file: string) => /^(cmd|tools|pkg\/(libcni|loop))\//.test(file) && !/^cmd\/agent(\/|\.ts$)/.test(file)

/** The back ends of pkg/engine, the only files that use an engine directly. */
const backEnds = [
  ...["bun.ts", "bun-calls.ts", "bun-structs.ts", "native.ts"],
  ...["calls.ts", "node.ts", "node-json.ts", "node-names.ts", "node-programs.ts", "node-stat.ts", "web.ts"],
].map((file) => `pkg/engine/${file}`)

const pluginPackages: Readonly<Record<string, readonly string[]>> = {
  "pkg/engine": ["#engine", "@noble/hashes/sha2.js"],
}

const anyOf = (patterns: readonly RegExp[]) => new RegExp(patterns.map(({ source }) => source).join("|"))

/** Names that Bun, Node and browsers add to the language, and parts of the language that the native host lacks. */
const ofAnEngine = anyOf([
  /(?<![.#\w])(Bun|process|Buffer|performance|crypto|console|require|globalThis)\b(?!["']?\??:)/,
  /\b(Text(En|De)coder|Proxy|Reflect|WeakRef|FinalizationRegistry|Atomics|SharedArrayBuffer|Intl|WebAssembly|Worker|URL)\b/,
  /\bimport\.meta\.(?!main\b)|\bMath\.random\b|\bdeclare const host\b|\bnew AbortController\b|\bAbortSignal\./,
  /(?<!\.)\b(setTimeout|setInterval|setImmediate|queueMicrotask|structuredClone|fetch|eval|Function|atob|btoa)\(/,
  /\.(normalize|localeCompare|toLocale\w+)\(/,
])

/** Parts of the language for asynchronous code. */
const ofWaiting = /\bnew Promise\b|\bPromise\.|\b(async|await)\b/

/**
 * A name beyond ASCII. It is forbidden, because QuickJS-ng 0.17.0 may read "é" as "Ã©". The bundler turns quoted keys
 * into names.
 */
const strangeName = /[^\0-\x7f]+/
const strangeKey = /"[^"\n]*[^\0-\x7f"\n][^"\n]*":/
/** A key that the bundler would turn into such a name, for files with tables and pictures beyond ASCII. */
const strangeNameAsKey = /(?<=[{,]\s*)"(?=[^"]*[^\0-\x7f])[\p{ID_Start}$_][\p{ID_Continue}$]*":/u

/** A line that reads clock, random numbers or environment at loading. A heap image would contain the old result. */
const whileLoading =
  /^(?:export )?(?:const|let) [^=]*= (?!.*=>).*\b(Date\.now|new Date|monotonicMs|bootMs|random(Hex|Bytes)|readEnvironment|engine\.\w+)\(/m

/** Files that call decoders which `mod.ts` does not export, on the native host, where integration/lab cannot run. */
const behindDoors = /^integration\/faults\/garbage\//

/** Tests, and files that only tests import. Neither are part of an executable. */
const forTests = /\.(test|fixture)\.ts$|\/testing(\.ts$|\/)/

/** Packages that read the environment or make that of a plugin. */
const knowEnvironment = [
  "pkg/skel",
  "pkg/invoke",
  "pkg/libcni",
  "pkg/npm",
  "cmd",
  "integration",
  "integration/lab",
  "bench",
  "scripts",
]

/** Returns the package of a file: `pkg/x`, `plugins/x`, `tools/x`, …; `undefined` for a file outside of packages. */
function roomOf(file: string): string | undefined {
  return /^(?:(?:pkg|plugins|ipam|meta|tools)\/[^/]+|integration\/lab|agent|install|suite|tools|cmd|integration|bench|scripts)(?=\/)/.exec(
    file,
  )?.[0]
}

/** Returns a source without the lines that are comments, because a comment may contain imports as an example. */
function withoutComments(source: string): string {
  return source.replace(/^\s*(\/\/|\/?\*).*$/gm, "")
}

const trailingComment = /\s\/\/ .*$/gm

/** Returns a source without string literals, which may contain any word. The expressions in templates stay. */
function withoutTexts(code: string): string {
  const inside = (template: string) =>
    [...template.matchAll(/\$\{([^}]*)\}/g)].map(([, expression]) => expression).join()
  return code.replace(/"(?:[^"\\\n]|\\.)*"/g, '""').replace(/`(?:[^`\\]|\\.)*`/g, inside)
}

/** Returns the names that a file imports from pkg/engine. */
function doorImports(code: string): string {
  return [...code.matchAll(/^(?:import|export) ([^"]*?) from "[^"]*engine\/mod\.ts"/gm)]
    .map(([, names]) => names)
    .join()
}

/** Returns the imports of a file: static, type-only, re-exported and lazy ones. */
function importsOf(code: string): string[] {
  const statics = code.matchAll(/^(?:import|export)\b[^"'`;]*?\bfrom\s+"([^"]+)"|^import\s+"([^"]+)"/gm)
  const lazy = code.matchAll(/\bimport\(\s*"([^"]+)"\s*\)/g)
  return [...statics, ...lazy].map(([, from, bare]) => from ?? bare ?? "")
}

function violations(file: string, source: string): string[] {
  const room = roomOf(file)
  if (room === undefined) return []
  const kind = room.replace(/\/.*/, "")
  const allowed = mayImport[room] ?? mayImport[kind]
  if (allowed === undefined) return [`${room} has no row in the table of rooms`]
  const isTest = forTests.test(file)
  const found: string[] = []
  const code = withoutComments(source)
  for (const from of importsOf(code)) {
    if (!isTest && forTests.test(from)) found.push(`${file} imports ${from}, which is for tests`)
    if (!from.startsWith(".")) {
      if (isTest) continue
      const mayHave = pluginPackages[room] ?? []
      if ((isPlugin(room) || isTool(file)) && !backEnds.includes(file) && !mayHave.includes(from))
        found.push(`${file} imports ${from}, and runs ${isTool(file) ? "on the native host" : "in a plugin's process"}`)
      continue
    }
    const target = relative(root, join(root, dirname(file), from))
    if (target.endsWith(".md")) continue // the text of a page, which the tool prints
    const other: string | undefined = roomOf(target)
    if (other === undefined || other === room) continue
    const isForTests = isTest && testsMayImport[kind]?.includes(other) === true
    const isAllowed = isForTests || (allowed instanceof RegExp ? allowed.test(other) : allowed.includes(other))
    if (!isAllowed) found.push(`${file} imports ${target}; ${room} may not import ${other}`)
    const door = /^(pkg\/|tools\/|integration\/lab$|agent$|install$)/.test(other)
      ? `${other}/mod.ts`
      : `${other}/main.ts`
    const isDoor = target === door || (isTest && forTests.test(target)) || behindDoors.test(file)
    if (!/^(suite|tools|cmd|scripts|bench)$/.test(other) && !isDoor)
      found.push(`${file} imports ${target}; the door of ${other} is ${door}`)
  }
  if (isTest) return found
  if (
    /\b(process|Bun)\.env\b|\benv(\.|\[")CNI_/.test(code) &&
    !knowEnvironment.includes(room) &&
    kind !== "tools" &&
    !backEnds.includes(file)
  )
    found.push(`${file} reads the environment; pkg/skel does that for it`)
  if (!(isPlugin(room) || isTool(file)) || backEnds.includes(file)) return found
  const own = isTool(file) ? ofAnEngine : anyOf([ofAnEngine, ofWaiting])
  const engineOnly = own.exec(withoutTexts(code).replace(trailingComment, ""))
  if (engineOnly) found.push(`${file} uses "${engineOnly[0]}", which not every engine has; pkg/engine is the door`)
  const strange = isTool(file)
    ? strangeNameAsKey.exec(code)
    : (strangeName.exec(withoutTexts(code).replace(trailingComment, "")) ?? strangeKey.exec(code))
  if (strange) found.push(`${file} has ${strange[0]} in a name, which the engine mistakes for another`)
  if (/\bimport\(/.test(code)) found.push(`${file} imports lazily: an executable is one script`)
  if (whileLoading.test(code)) found.push(`${file} asks for clock, chance or environment while it is loaded`)
  if (isPlugin(room) && /\bengine\b|\*/.test(doorImports(code)) && !["pkg/libc", "pkg/engine"].includes(room))
    found.push(`${file} makes system calls by itself; pkg/libc has functions that throw`)
  return found
}

test("every file keeps to the table of rooms [S123]", async () => {
  const files = [
    ...new Bun.Glob("{pkg,plugins,ipam,meta,agent,install,suite,tools,cmd,integration,bench,scripts}/**/*.ts").scanSync(
      root,
    ),
  ].sort()
  expect(files.length).toBeGreaterThan(10)
  const found = files.map(async (file) => violations(file, await Bun.file(join(root, file)).text()))
  expect((await Promise.all(found)).flat()).toEqual([])
})

/** Returns the cycles of imports: the files of each, with the first file again at the end. */
function importCircles(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const done = new Set<string>()
  const circles: string[][] = []
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file])
    else if (!done.has(file)) for (const next of imports.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
  return circles
}

/** The folders whose files must not import one another in a cycle. Files of pkg that only tests import are exempt. */
const withoutCircles = [
  "pkg",
  "plugins",
  "ipam",
  "meta",
  "agent",
  "install",
  "suite",
  "tools",
  "cmd",
  "integration",
  "bench",
  "scripts",
]

test("no file of these folders imports itself by way of others", async () => {
  const files = [...new Bun.Glob(`{${withoutCircles.join(",")}}/**/*.ts`).scanSync(root)].sort()
  const read = files.map(async (file): Promise<[string, string[]]> => {
    const isFixture = roomOf(file)?.startsWith("pkg/") && forTests.test(file)
    const imports = isFixture ? [] : importsOf(withoutComments(await Bun.file(join(root, file)).text()))
    return [file, imports.filter((from) => from.startsWith(".")).map((from) => join(dirname(file), from))]
  })
  expect(importCircles(new Map(await Promise.all(read)))).toEqual([])
})

test("a circle of imports is found from each of its files", () => {
  const circle = new Map([
    ["a.ts", ["b.ts"]],
    ["b.ts", ["c.ts", "d.ts"]],
    ["c.ts", ["d.ts"]],
    ["d.ts", ["b.ts"]],
  ])
  expect(importCircles(circle)).toEqual([["b.ts", "c.ts", "d.ts", "b.ts"]])
  expect(
    importCircles(
      new Map([
        ["a.ts", ["b.ts", "c.ts"]],
        ["b.ts", ["c.ts"]],
      ]),
    ),
  ).toEqual([])
})

test("every room of pkg and every tool has a door", () => {
  const rooms = new Set([...new Bun.Glob("{pkg,tools}/*/*.ts").scanSync(root)].map(dirname))
  const doors = new Set([...new Bun.Glob("{pkg,tools}/*/mod.ts").scanSync(root)].map(dirname))
  expect([...rooms].filter((room) => !doors.has(room))).toEqual([])
})

describe("the table is held against", () => {
  test.each([
    [
      "a lower room that looks up",
      "pkg/netlink/a.ts",
      'import { a } from "../netns/mod.ts"',
      "may not import pkg/netns",
    ],
    ["a type from above", "pkg/libc/a.ts", 'import type { A } from "../types/mod.ts"', "may not import pkg/types"],
    ["a re-export", "pkg/libc/a.ts", 'export { a } from "../types/mod.ts"', "may not import pkg/types"],
    ["an import of many lines", "pkg/libc/a.ts", 'import {\n  a,\n} from "../ip/mod.ts"', "may not import pkg/ip"],
    ["a way around the door", "pkg/ip/a.ts", 'import { a } from "../libc/a.ts"', "the door of pkg/libc is"],
    ["a plugin that imports another", "meta/a/b.ts", 'import("../../plugins/b/main.ts")', "may not import plugins/b"],
    ["bun:ffi elsewhere", "pkg/libc/a.ts", 'import { dlopen } from "bun:ffi"', "imports bun:ffi"],
    ["a global of Bun", "pkg/libc/a.ts", "Bun.sleepSync(1)", 'uses "Bun"'],
    ["a global of the web", "pkg/types/a.ts", "new TextEncoder()", 'uses "TextEncoder"'],
    ["chance that a heap image would fix", "pkg/ip/a.ts", "const a = () => Math.random()", 'uses "Math.random"'],
    ["something to wait for", "pkg/ip/a.ts", "export async function a() {}", 'uses "async"'],
    ["a promise", "pkg/ip/a.ts", "const a = () => new Promise<void>(() => {})", 'uses "new Promise"'],
    ["a global by another name", "pkg/ip/a.ts", "const { env } = process\n", 'uses "process"'],
    ["a global in a template", "pkg/ip/a.ts", `const a = () => \`\${Buffer.from(b)}\``, 'uses "Buffer"'],
    ["words of a language", "pkg/ip/a.ts", "a.sort((x, y) => x.localeCompare(y))", 'uses ".localeCompare("'],
    ["a name that is no ASCII", "pkg/ip/a.ts", 'const a = { é: "é" }', "has é in a name"],
    ["a key that becomes such a name", "pkg/ip/a.ts", 'const a = { "é": 1 }', 'has "é": in a name'],
    ["code from a text", "pkg/ip/a.ts", 'const a = () => eval("1")', 'uses "eval("'],
    ["the host behind the door's back", "pkg/ip/a.ts", "declare const host: Engine", 'uses "declare const host"'],
    ["the door by its key", "pkg/libc/a.ts", 'import { engine } from "#engine"', "imports #engine"],
    ["a whole module", "pkg/libc/a.ts", 'import * as fs from "node:fs"', "imports node:fs"],
    [
      "a package in the door",
      "pkg/engine/digest.ts",
      'import { createHash } from "node:crypto"',
      "imports node:crypto",
    ],
    [
      "a back end from elsewhere",
      "pkg/libc/a.ts",
      'import { engine } from "../engine/bun.ts"',
      "the door of pkg/engine is",
    ],
    ["a clock read while loading", "pkg/ip/a.ts", "const start = Date.now()", "while it is loaded"],
    [
      "a system call elsewhere",
      "pkg/netns/a.ts",
      'import { engine } from "../engine/mod.ts"',
      "makes system calls by itself",
    ],
    ["all of the door", "pkg/ip/a.ts", 'import * as door from "../engine/mod.ts"', "makes system calls by itself"],
    [
      "the engine handed on",
      "pkg/ip/a.ts",
      'export { engine } from "../engine/mod.ts"',
      "makes system calls by itself",
    ],
    ["a slow package in a plugin", "ipam/a/a.ts", 'import { join } from "node:path"', "imports node:path"],
    [
      "a plugin that reads the environment",
      "plugins/a/a.ts",
      "const path = process.env.CNI_PATH",
      "reads the environment",
    ],
    ["a plugin that ends the process", "plugins/a/a.ts", "process.exit(1)", 'uses "process"'],
    ["a fixture in a plugin", "plugins/a/a.ts", 'import { a } from "./a.fixture.ts"', "which is for tests"],
    ["a tool that looks up", "tools/a.ts", 'import { a } from "../cmd/help.ts"', "may not import cmd"],
    [
      "a way around a tool's door",
      "tools/graph/a.ts",
      'import { a } from "../doctor/a.ts"',
      "the door of tools/doctor is",
    ],
    ["a plugin that imports a tool", "meta/a/b.ts", 'import { a } from "../../tools/a.ts"', "may not import tools"],
    ["a lazy import", "plugins/a/a.ts", 'const a = await import("./b.ts")', "imports lazily"],
    ["a package in the tool", "cmd/cni/a.ts", 'import { parseArgs } from "node:util"', "on the native host"],
    ["a global of Bun in the tool", "tools/a.ts", "Bun.sleepSync(1)", 'uses "Bun"'],
    ["a global of the web in the library", "pkg/libcni/a.ts", "new AbortController()", 'uses "new AbortController"'],
    ["a key that becomes a strange name in the tool", "tools/a.ts", 'const a = { "é": 1 }', 'has "é": in a name'],
    ["a lazy import in the tool", "tools/a.ts", 'const a = await import("./b.ts")', "imports lazily"],
    ["a clock read while the tool is loaded", "cmd/a.ts", "const start = Date.now()", "while it is loaded"],
    ["a room without a row", "pkg/utils/a.ts", "", "no row in the table"],
  ])("%s", (_, file, source, sentence) => {
    expect(violations(file, source).join("\n")).toContain(sentence)
  })

  test("but not against what waits in the tool, nor against the agent, which runs on Bun", () => {
    expect(violations("tools/a.ts", "export async function a() { await Promise.all([]) }")).toEqual([])
    expect(violations("cmd/agent/a.ts", 'import { a } from "node:path"\nBun.file(a)')).toEqual([])
    expect(violations("cmd/agent.ts", "process.exit(1)")).toEqual([])
  })

  test("but not against what comments and tests say", () => {
    expect(violations("pkg/libc/a.ts", '/**\n * import { a } from "../ip/mod.ts"\n */')).toEqual([])
    expect(violations("pkg/libc/a.test.ts", 'import { join } from "node:path"')).toEqual([])
  })
})
