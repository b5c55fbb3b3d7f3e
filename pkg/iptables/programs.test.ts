import { expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { AF_INET, AF_INET6, type Family } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { chooseVariant, findPrograms, isLegacyDefault, type Programs, requirePrograms } from "./programs.ts"
import { changeTable, readTable, restoreTable } from "./run.ts"
import { chain, rule } from "./save-restore.ts"

function directory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), "cni-iptables-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

function script(path: string, name: string, text: string): string {
  const file = join(path, name)
  writeFileSync(file, `#!/bin/sh\n${text}\n`)
  chmodSync(file, 0o755)
  return file
}

test("the programs are looked for in fixed directories, by family and kind [S37]", () => {
  using bin = directory()
  for (const name of ["iptables", "ip6tables", "iptables-legacy"]) {
    for (const verb of ["save", "restore"]) script(bin.path, `${name}-${verb}`, "")
  }
  const found = (name: string, family: Family) => {
    return { family, save: join(bin.path, `${name}-save`), restore: join(bin.path, `${name}-restore`) }
  }
  const places = ["/nowhere", bin.path]
  expect(findPrograms(AF_INET, "default", places)).toEqual(found("iptables", AF_INET))
  expect(findPrograms(AF_INET, "legacy", places)).toEqual(found("iptables-legacy", AF_INET))
  // If `ip6tables-legacy` does not exist, "ip6tables" is the program for legacy tables.
  expect(findPrograms(AF_INET6, "legacy", places)).toEqual(found("ip6tables", AF_INET6))
})

test("a link to the newer kind is not the legacy one, also under another name", () => {
  using bin = directory()
  script(bin.path, "xtables-nft-multi", "")
  symlinkSync("xtables-nft-multi", join(bin.path, "alternative"))
  for (const verb of ["save", "restore"]) symlinkSync(join(bin.path, "alternative"), join(bin.path, `iptables-${verb}`))
  expect(findPrograms(AF_INET, "legacy", [bin.path])).toBeUndefined()
  expect(findPrograms(AF_INET, "default", [bin.path])?.restore).toBe(join(bin.path, "iptables-restore"))
  expect(isLegacyDefault(AF_INET, [bin.path])).toBe(false)
  expect(isLegacyDefault(AF_INET6, [bin.path])).toBe(false) // the program does not exist
  for (const verb of ["save", "restore"]) script(bin.path, `ip6tables-${verb}`, "")
  expect(isLegacyDefault(AF_INET6, [bin.path])).toBe(true)
  expect(() => requirePrograms(AF_INET, "legacy", [bin.path])).toThrow(
    '"iptables-legacy-save" and "iptables-legacy-restore"',
  )
})

test("a chain of links to the newer kind may be long, and one without an end is not a program", () => {
  using bin = directory()
  script(bin.path, "xtables-nft-multi", "")
  symlinkSync("xtables-nft-multi", join(bin.path, "link1"))
  for (let hop = 1; hop < 8; hop++) symlinkSync(`link${hop}`, join(bin.path, `link${hop + 1}`))
  for (const verb of ["save", "restore"]) symlinkSync("link7", join(bin.path, `ip6tables-${verb}`))
  expect(findPrograms(AF_INET6, "legacy", [bin.path])).toBeUndefined()
  for (const verb of ["save", "restore"]) symlinkSync(`iptables-${verb}`, join(bin.path, `iptables-${verb}`))
  expect(findPrograms(AF_INET, "default", [bin.path])).toBeUndefined()
})

test("a directory on the way whose name says nft makes no program the newer kind", () => {
  using bin = directory()
  mkdirSync(join(bin.path, "a-nft"))
  for (const verb of ["save", "restore"]) script(bin.path, `a-nft/iptables-${verb}`, "")
  expect(findPrograms(AF_INET, "legacy", [join(bin.path, "a-nft")])).toMatchObject({ family: AF_INET })
})

test("what is a directory, or lies below a file, is not a program", () => {
  using bin = directory()
  script(bin.path, "file", "")
  for (const verb of ["save", "restore"]) mkdirSync(join(bin.path, `iptables-${verb}`))
  expect(findPrograms(AF_INET, "default", [join(bin.path, "file"), bin.path])).toBeUndefined()
})

test("a kernel without nf_tables has the legacy kind", () => {
  expect(chooseVariant(undefined)).toBe("legacy")
})

test("half of a pair does not count, and the error names the missing programs and their package", () => {
  using bin = directory()
  script(bin.path, "ip6tables-save", "")
  expect(findPrograms(AF_INET6, "default", [bin.path])).toBeUndefined()
  try {
    requirePrograms(AF_INET6, "default", [bin.path])
    expect.unreachable()
  } catch (error) {
    expect(String(error)).toStartWith(
      `Cannot find the programs "ip6tables-save" and "ip6tables-restore" in ${bin.path}; install them (Debian's package is called "iptables"), or use the nftables backend, which needs no program`,
    )
  }
  expect(() => requirePrograms(AF_INET, "default", ["/nowhere", "/nor/here"])).toThrow(" in /nowhere, /nor/here")
})

/** Returns programs whose table is a file. `restore` is a script that stores its input there unchanged. */
function pretendPrograms(path: string, saved: string, restore: string): Programs {
  writeFileSync(join(path, "saved"), saved)
  return {
    family: AF_INET,
    save: script(path, "iptables-save", `cat ${path}/saved; env > ${path}/env; echo "$@" >> ${path}/calls`),
    restore: script(path, "iptables-restore", `echo "$@" >> ${path}/calls; cat > ${path}/input; ${restore}`),
  }
}
const read = (path: string, name: string) => Bun.file(join(path, name)).text()

test("a table is read and changed by one call each, in an environment of their own", async () => {
  using bin = directory()
  const programs = pretendPrograms(bin.path, "*nat\n:X - [0:0]\nCOMMIT\n", "exit 0")
  expect(readTable(programs, "nat")).toEqual({ chains: ["X"], rules: [] })
  restoreTable(programs, "nat", [chain.delete("X")])
  restoreTable(programs, "nat", [])
  expect(await read(bin.path, "calls")).toBe("-t nat\n--noflush --wait 20\n")
  expect(await read(bin.path, "input")).toBe("*nat\n-F X\n-X X\nCOMMIT\n")
  const names = (await read(bin.path, "env")).split("\n").map((line) => line.split("=")[0])
  expect(names.filter((name) => !/^(PWD|SHLVL|_|)$/.test(name ?? "")).sort()).toEqual(["LC_ALL", "PATH"])
})

test("a change that is refused although no other program has changed anything is an error", () => {
  using bin = directory()
  const programs = pretendPrograms(bin.path, "*nat\n:X - [0:0]\nCOMMIT\n", 'echo "line 2 failed" >&2; exit 1')
  expect(() => changeTable(programs, "nat", () => [chain.create("Y")])).toThrow(
    `Cannot change table nat by ${programs.restore}: "-N Y" was refused`,
  )
})

test("a change that is refused because another program was faster is planned again", async () => {
  using bin = directory()
  const faster = `if [ ! -e ${bin.path}/lost ]; then touch ${bin.path}/lost; echo ":Y - [0:0]" >> ${bin.path}/saved; exit 1; fi`
  const programs = pretendPrograms(bin.path, "*nat\n:X - [0:0]\n", faster)
  const seen: string[][] = []
  changeTable(programs, "nat", ({ chains }) => {
    seen.push([...chains])
    return chains.includes("Y") ? [rule.append({ chain: "Y", words: ["-j", "ACCEPT"] })] : [chain.create("Y")]
  })
  expect(seen).toEqual([["X"], ["X", "Y"]])
  expect(await read(bin.path, "input")).toBe("*nat\n-A Y -j ACCEPT\nCOMMIT\n")
})

test("#43 a change that others are always faster with is code 11 in the end", async () => {
  using bin = directory()
  const faster = `echo ":Y$(wc -l < ${bin.path}/calls) - [0:0]" >> ${bin.path}/saved; exit 1`
  const programs = pretendPrograms(bin.path, "*nat\n:X - [0:0]\n", faster)
  let plans = 0
  const refused = refusalOf(() => changeTable(programs, "nat", () => [chain.create(`Z${++plans}`)]))
  expect(refused).toMatchObject({ code: 11, message: "Cannot change table nat: other programs keep changing it" })
  expect(plans).toBe(10)
})
