import { describe, expect, test } from "bun:test"
import { chmodSync, existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Lab } from "../pkg/libcni/testing/lab.ts"
import { complete, completionScript, shells } from "./completion.ts"

const runtimeFlags = { "conf-dir": { type: "string" }, json: { type: "boolean" } } as const
const commands = {
  add: {
    words: ["NETWORK", "CONTAINER"],
    flags: {
      ifname: { type: "string", short: "i" },
      output: { type: "string", short: "o", choices: ["text", "wide", "json"] },
      ...runtimeFlags,
    },
  },
  "ipam ls": { words: ["[NETWORK]"], flags: runtimeFlags },
  "ipam release": { words: ["NETWORK"], flags: {} },
  install: { words: [], flags: {} },
  completion: { words: ["SHELL"], flags: {} },
  help: { words: ["COMMAND"], flags: {} },
} as const

function labOfTwo(): Lab {
  const lab = new Lab()
  lab.conf("10-lan.conflist", { name: "lan", plugins: [{ type: "x" }] })
  lab.conf("20-lab.conf", { name: "lab", type: "x" })
  return lab
}

describe("a command line", () => {
  const first = "add ipam install completion help"

  test.each([
    ["", first],
    ["in", "install"],
    ["frob", ""],
    ["ipam ", "ls release"],
    ["ipam r", "release"],
    ["frob ", ""],
    ["add ", "lab lan"],
    ["add lab", "lab"],
    ["add x", ""],
    ["add lab ", ""],
    ["ipam ls ", "lab lan"],
    ["ipam release la", "lab lan"],
    ["install ", ""],
    ["completion ", "bash zsh fish"],
    ["completion f", "fish"],
    ["help ", first],
    ["-", "--help"],
    ["add --", "--help --ifname --output --conf-dir --json"],
    ["add lab --c", "--conf-dir"],
    ["add --json la", "lab lan"],
    ["add -i ", ""],
    ["add -o ", "text wide json"],
    ["add --output w", "wide"],
    ["add --output = j", "json"],
    ["add -i eth1 la", "lab lan"],
    ["--ifname eth1 add la", "lab lan"],
    ["--ifname=eth1 add la", "lab lan"],
    ["--ifname = eth1 add la", "lab lan"], // split as bash splits it
    ["add --ifname =", ""],
    ["add --ifname = ", ""],
    ["add --conf-dir /does/not/exist ", ""],
    ["add --conf-dir=/does/not/exist ", ""],
    ["constructor ", ""],
  ])("%j may go on with %j", (line, wanted) => {
    using lab = labOfTwo()
    const reply = complete(commands, line.split(" "), lab.confDir)
    expect(reply).toBe(wanted.replaceAll(/\S+ ?/g, (word) => `${word.trim()}\n`))
  })

  test("finds the networks where its own --conf-dir points", () => {
    using lab = labOfTwo()
    expect(complete(commands, ["add", "--conf-dir", lab.confDir, ""], "/does/not/exist")).toBe("lab\nlan\n")
  })

  test("finds the containers of the network before it", () => {
    const containersOf = (network: string) => [`of-${network}`, "demo"]
    expect(complete(commands, ["add", "lab", ""], "/none", containersOf)).toBe("of-lab\ndemo\n")
    expect(complete(commands, ["add", "lab", "d"], "/none", containersOf)).toBe("demo\n")
  })

  test("has no networks where no directory can be listed", () => {
    using lab = labOfTwo()
    const file = lab.conf("file", "not a directory")
    expect(complete(commands, ["add", ""], file)).toBe("")
  })
})

describe("the script for", () => {
  function installTools(lab: Lab): void {
    for (const tool of ["cni", "cnitool"]) {
      const file = join(lab.binDir, tool)
      const entry = join(import.meta.dir, "main.ts")
      writeFileSync(file, `#!/bin/bash\nexec -a ${tool} '${process.execPath}' '${entry}' "$@"\n`)
      chmodSync(file, 0o755)
    }
  }

  /** Returns the completions that bash offers for the last word of a command line. */
  function offeredByBash(lab: Lab, words: readonly string[]): string[] {
    const [tool = ""] = words
    const script = `set -u
source <(${tool} completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
[[ $(complete -p ${tool}) =~ -F\\ ([^ ]+) ]] && "\${BASH_REMATCH[1]}"
(( \${#COMPREPLY[@]} == 0 )) || printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout, stderr } = Bun.spawnSync(["bash", "--norc", "--noprofile", "-c", script, "bash", ...words], {
      env: { PATH: `${lab.binDir}:${process.env.PATH}`, NETCONFPATH: lab.confDir },
    })
    expect(stderr.toString()).toBe("")
    return stdout.toString().split("\n").slice(0, -1)
  }

  test("bash offers verbs, and networks of NETCONFPATH", () => {
    using lab = labOfTwo()
    installTools(lab)
    expect(offeredByBash(lab, ["cnitool", ""])).toEqual(["add", "check", "del", "gc", "status", "completion", "help"])
    expect(offeredByBash(lab, ["cnitool", "ch"])).toEqual(["check"])
    expect(offeredByBash(lab, ["cnitool", "add", ""])).toEqual(["lab", "lan"])
    expect(offeredByBash(lab, ["cnitool", "--ifname", "=", "eth1", "del", "lan"])).toEqual(["lan"])
    expect(offeredByBash(lab, ["cnitool", "add", "lab", ""])).toEqual([])
    expect(offeredByBash(lab, ["cni", "ipam", ""])).toEqual(["ls", "release"])
    expect(offeredByBash(lab, ["cni", "status", "lab", "--j"])).toEqual(["--json"])
  })

  test("bash hands nothing that is typed or named to the shell as code", () => {
    using lab = labOfTwo()
    installTools(lab)
    const mark = join(lab.root, "mark")
    expect(offeredByBash(lab, ["cnitool", "add", `$(touch ${mark})`])).toEqual([])
    expect(existsSync(mark)).toBe(false)
  })

  test.each(shells)("%s asks the tool itself, and is good syntax", (shell) => {
    const script = completionScript("cnitool", shell)
    expect(script).toContain("__complete")
    expect(script?.replaceAll("cnitool", "")).not.toContain("cni")
    expect(completionScript("cni", shell)).toBe(String(script?.replaceAll("cnitool", "cni")))
    const installed = Bun.which(shell)
    if (installed === null) return // its syntax is checked on machines with this shell
    const { exitCode } = Bun.spawnSync([installed, "-n"], { stdin: new TextEncoder().encode(script) })
    expect(exitCode).toBe(0)
  })

  test("an unknown shell does not exist", () => {
    for (const shell of ["powershell", "constructor", ""]) expect(completionScript("cni", shell)).toBeUndefined()
  })

  test("zsh works when sourced and as a file of fpath; fish takes files where there is nothing else", () => {
    expect(completionScript("cni", "zsh")).toStartWith("#compdef cni\n")
    expect(completionScript("cni", "zsh")).toContain("compdef _cni cni")
    expect(completionScript("cni", "fish")).toContain("complete --command cni --no-files")
    expect(completionScript("cni", "fish")).toContain("__fish_complete_path")
  })
})

test("what a word may be, where a command says so; a plugin, a verb, a rule", () => {
  const commands = {
    schema: { words: ["[PLUGIN]"], flags: {}, choices: { PLUGIN: ["bridge", "ptp"] } },
    "dry-run": { words: ["ADD", "NETWORK"], flags: {}, choices: { ADD: ["ADD"] } },
  }
  expect(complete(commands, ["schema", "b"], "/none")).toBe("bridge\n")
  expect(complete(commands, ["dry-run", ""], "/none")).toBe("ADD\n")
  expect(complete(commands, ["schema", "bridge", ""], "/none")).toBe("")
})
