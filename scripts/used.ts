/**
 * Finds out what calls use: builds plugins that record it, runs the benchmark's calls with them, and writes `host/used-names.txt` and
 * `host/used-functions.txt`. The build puts what is in these lists close together (docs/engine.md). They may be older than the code: what
 * they miss costs a page, what they have too much is not there.
 *
 *   node_modules/.bin/bun scripts/used.ts     # as root, some minutes
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { execa } from "execa"
import { bundle } from "./bundle.ts"
import { root, run, usedFunctions } from "./engine.ts"
import { buildEach, usedNames } from "./native.ts"
import { pluginNames, programsOf } from "./programs.ts"

/** The benchmark's rows in which each verb of each plugin succeeds at least once. */
const rows = `^(VERSION of .*|(${[
  "chain with 20 ports beside 1",
  "(ptp|macvlan|ipvlan|vlan|host-device|dummy|tap)\\+host-local",
  "(loopback|static|tuning|vrf|dhcp|bandwidth|firewall)",
  "(bridge\\+host-local\\+sbr|flannel\\+bridge\\+host-local)",
  "host-local, no store,",
].join("|")}) [A-Z]+)$`

/** What is recorded: a file for each program, with a line for each name and address. The engine is compiled with this path. */
const record = join(root, "dist/record")

/** What each ADD calls and VERSION does not. A plugin without it was not recorded: the kernel lacks what it makes. */
const afterAdd = "encodeResult"

/** Sorted, each once, a line each. */
const listOf = (names: Iterable<string>) => `${[...new Set(names)].sort().join("\n")}\n`

/** Names as the maker compares them, `host/maker.c`. */
const withoutNumber = (name: string) => name.replace(/[0-9]+$/, "")

/** The C functions at these addresses; the code of all plugins is the same. */
async function functionsAt(addresses: ReadonlySet<string>, executable: string): Promise<string[]> {
  const symbols = Buffer.from(await run(["nm", executable])).toString()
  return symbols.split("\n").flatMap((line) => {
    const [address = "", , name = ""] = line.split(" ")
    return addresses.has(`0x${address.replace(/^0+/, "")}`) ? [name.replace(/\..*/, "")] : []
  })
}

/** The names with the plugins that use them, as `usedNamesOf` reads them. */
function linesOf(used: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const all = new Set([...used.values()].flatMap((plugins) => [...plugins]))
  return [...used].map(([name, plugins]) =>
    plugins.size === all.size ? name : [name, ...[...plugins].sort()].join("\t"),
  )
}

async function main(): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), "used-"))
  rmSync(record, { recursive: true, force: true })
  mkdirSync(record, { recursive: true })
  try {
    const plugins = join(scratch, "plugins")
    const engineFlags = ["-finstrument-functions", `-DJS_RECORD=${JSON.stringify(record)}`]
    await buildEach(plugins, { engine: "record", engineFlags })
    const bench = ["bench/main.ts", "--only", rows, "--runs", "1", "--peer", plugins]
    await execa(process.execPath, bench, { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
    const { script } = await bundle("plugins", await programsOf(...pluginNames))
    const words = new Set(script.match(/#?[\w$]+/g))
    const isWord = (name: string) => {
      const [, word = ""] = /^(?:[gs]et |\[Symbol\.)?(#?[A-Za-z_$][\w$]*)\]?$/.exec(name) ?? []
      return words.has(word)
    }
    const used = new Map<string, Set<string>>()
    const addresses = new Set<string>()
    for (const plugin of pluginNames) {
      const lines = existsSync(join(record, plugin)) ? readFileSync(join(record, plugin), "utf8").split("\n") : []
      for (const line of lines) if (line.startsWith("0x")) addresses.add(line)
      if (!lines.some((line) => withoutNumber(line) === afterAdd)) continue
      for (const name of lines.filter(isWord))
        used.getOrInsertComputed(withoutNumber(name), () => new Set()).add(plugin)
    }
    writeFileSync(usedNames, listOf(linesOf(used)))
    writeFileSync(usedFunctions, listOf(await functionsAt(addresses, join(plugins, "bridge"))))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
    rmSync(record, { recursive: true, force: true })
  }
}

await main()
