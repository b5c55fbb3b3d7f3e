import { describe, expect, test } from "bun:test"
import { findingNames } from "../../tools/doctor/mod.ts"
import { ruleNames } from "../../tools/lint/mod.ts"
import { recordingTerminal } from "../../tools/testing.ts"
import { parseArguments } from "../arguments.ts"
import { cni, commands, groups } from "./main.ts"

const all = Object.entries(commands)

/** Returns the synopsis of a command in the help: its words, then "--" and its flags. "…" follows a repeatable part. */
function synopsis(name: string): string {
  const { words, flags } = commands[name] ?? expect.unreachable()
  const spelled = Object.entries(flags).map(([flag, { short, value, multiple }]) =>
    [short ? `-${short}/` : "", `--${flag}`, value ? `=${value}` : "", multiple ? "…" : ""].join(""),
  )
  return [name, ...words, ...(spelled.length > 0 ? [":"] : []), ...spelled].join(" ")
}

const PLACES = "--conf-dir=DIR --bin-dir=DIR[:DIR] --cache-dir=DIR"
const OUTPUT = "-o/--output=FORMAT --json --no-headers"
const WATCH = "-w/--watch --interval=SECONDS"
const RUNTIME = `${PLACES} --timeout=SECONDS ${OUTPUT}`
const ATTACHMENT = `-i/--ifname=NAME --container-id=ID ${RUNTIME}`

test("these are the commands with their words and flags", () => {
  expect(Object.keys(commands).map(synopsis)).toEqual([
    `add NETWORK CONTAINER : ${ATTACHMENT}`,
    `check NETWORK CONTAINER : ${ATTACHMENT}`,
    `del NETWORK CONTAINER : ${ATTACHMENT}`,
    `status NETWORK : ${WATCH} ${RUNTIME}`,
    `reattach NETWORK|CONTAINER… : --timeout=SECONDS ${PLACES} ${OUTPUT}`,
    `reconcile [NETWORK] : --dry-run --listen --containers --flows --only=PLUGIN --conf-dir=DIR --cache-dir=DIR --bin-dir=DIR[:DIR] --timeout=SECONDS ${OUTPUT}`,
    `gc [NETWORK] : --keep=NAME… --auto --dry-run ${RUNTIME}`,
    `ps [NETWORK] : --orphans -n/--namespace=NAME -A/--all-namespaces ${WATCH} ${PLACES} ${OUTPUT}`,
    `doctor [NETWORK] : --all --fix --bundle=FILE --timeout=SECONDS ${WATCH} ${PLACES} ${OUTPUT}`,
    `trace [NETWORK] [CONTAINER] : --to=ADDRESS[:PORT] --udp -i/--ifname=NAME --probe --from=ADDRESS --to-port=PORT --in=NAME ${PLACES} ${OUTPUT}`,
    `test [NETWORK] : --containers=CONTAINERS --outside=ADDRESS[:PORT] --name=NAME --wait=SECONDS --timeout=SECONDS ${PLACES} ${OUTPUT}`,
    `graph [NETWORK] : --write=FILE --theme=THEME ${WATCH} ${PLACES} ${OUTPUT}`,
    `log : -f/--follow --container=NAME --network=NETWORK --failed --otlp --file=FILE ${OUTPUT}`,
    "metrics : --write=FILE --file=FILE --conf-dir=DIR --cache-dir=DIR -o/--output=FORMAT --json",
    "recorder on",
    "recorder off",
    `dhcp ls [NETWORK] : --state-dir=DIR ${OUTPUT}`,
    `ipam ls [NETWORK] : --data-dir=DIR --conf-dir=DIR ${OUTPUT}`,
    `ipam release NETWORK : --address=IP --container=NAME --ifname=NAME --data-dir=DIR --conf-dir=DIR ${OUTPUT}`,
    `dry-run ADD NETWORK : ${ATTACHMENT}`,
    `diff NETWORK CONTAINER : ${ATTACHMENT}`,
    `explain ERROR|CODE|NAME|-… : ${OUTPUT}`,
    `lint [FILE|DIR] : --conf-dir=DIR --bin-dir=DIR[:DIR] --node --service-range=CIDR… --strict --timeout=SECONDS ${OUTPUT}`,
    "schema [PLUGIN] : --strict --write=DIR --json",
    `install : --bin-dir=DIR --tool-dir=DIR --config=FILE --skip-status --conf-dir=DIR --cache-dir=DIR --adopt --verify --rollback --uninstall --wait=SECONDS --dry-run ${OUTPUT}`,
    `migrate : --plan --apply --back --bin-dir=DIR --conf-dir=DIR --cache-dir=DIR ${OUTPUT}`,
    "completion SHELL",
    "version",
  ])
})

test.each(all)(
  "cni %s says what it does, what each flag is for, and what it takes",
  (name, { summary, flags, help }) => {
    expect(summary).toMatch(/^[A-Z][a-z]+ .*[^.]$/)
    expect(help.length > 0).toBe(name !== "version")
    for (const [flag, { type, value, help: says }] of Object.entries(flags)) {
      expect(`${flag}: ${says}`).toMatch(/: \S.{5,}[^.]$/)
      expect(`${flag}: ${value}`).toMatch(type === "string" ? /: [A-Z[\]:/]+$/ : /: undefined$/)
    }
  },
)

const examples = all.flatMap(([name, { help }]) =>
  [...help.matchAll(/^ {2}(?:[A-Z_]+='[^']*' )?(cni [^|;>\n]*)/gm)].map(
    ([, line = ""]) => [line.trim(), name] as const,
  ),
)

test("nearly every command has examples", () => {
  const without = all.map(([name]) => name).filter((name) => !examples.some(([, of]) => of === name))
  expect(without).toEqual(["recorder off", "completion", "version"])
})

test.each(examples)("%s is understood", (line) => {
  const [, ...words] = line.match(/'[^']*'|\S+/g) ?? []
  const name = Object.keys(commands).find((each) => `${words.join(" ")} `.startsWith(`${each} `)) ?? ""
  const { flags, words: wanted } = commands[name] ?? expect.unreachable()
  const { words: positionals } = parseArguments(words.slice(name.split(" ").length), flags)
  expect(positionals.length).toBeLessThanOrEqual(wanted.length)
  expect(positionals.length).toBeGreaterThanOrEqual(wanted.filter((word) => !word.startsWith("[")).length)
})

describe("what is printed", () => {
  const say = async (...args: string[]) => {
    const terminal = recordingTerminal({})
    await cni(args, terminal)
    return terminal.out
  }

  test("of a command", async () => {
    expect(await say("ipam", "release", "--help")).toBe(
      `Release addresses by hand, if no DEL will follow.

Usage:
  cni ipam release NETWORK [flags]

Flags:
  --address IP          this address, and the others of the same container interface
  --container NAME      the addresses of this container
  --ifname NAME         only those of this interface (with --container; default eth0)
  --data-dir DIR        reservations (default: the network's dataDir, else /var/lib/cni/networks)
  --conf-dir DIR        network configurations (NETCONFPATH, else the runtime's)
  -o, --output FORMAT   text, wide (every column, nothing cut) or json (default text)
  --json                the same as -o json; errors are JSON too
  --no-headers          print tables without their header row

Make sure that no container uses the addresses: host-local will assign them to another one.

Examples:
  cni ipam release mynet --address 10.22.0.7
  cni ipam release mynet --container 4e5f6a --ifname eth0
`,
    )
    expect(await say("version", "--help")).toBe(
      "Print the version of this suite and of the protocol.\n\nUsage:\n  cni version\n",
    )
  })

  test("of a group, and of the tool", async () => {
    expect(await say("recorder")).toBe(
      `Switch the flight recorder on and off: one line for each call of a plugin.

Usage:
  cni recorder COMMAND [arguments]

Commands:
  recorder on   Record every plugin call in the flight recorder
  recorder off  Stop recording, and delete the recorded calls

"cni recorder COMMAND --help" says more about one command.
`,
    )
    expect(await say("dhcp")).toStartWith("Show the leases of the dhcp daemon.\n")
    expect(await say("ipam")).toStartWith("Show the addresses that host-local assigned, and release them.\n")
    expect(Object.keys(groups)).toEqual(["dhcp", "recorder", "ipam"])
    const tool = await say()
    const lines = all.map(([name, { summary }]) => `  ${name.padEnd(14)}${summary}\n`)
    expect(tool).toStartWith(
      "Attaches containers to CNI networks by hand, inspects a node, checks configurations, cleans up, and installs the plugins.\n\nUsage:\n  cni COMMAND [arguments]\n\n",
    )
    expect(tool).toContain(`Commands:\n${lines.join("")}\nTry it:\n`)
    expect(tool).toEndWith('\n"cni COMMAND --help" says more about one command.\n')
  })

  test("of the version", async () => {
    for (const words of [["version"], ["--version"]]) {
      expect(await say(...words)).toMatch(
        /^cni \d+\.\d+\.\d+\S*\nCNI protocol versions supported: 0\.1\.0, 0\.2\.0, 0\.3\.0, 0\.3\.1, 0\.4\.0, 1\.0\.0, 1\.1\.0\n$/,
      )
    }
  })
})

test("words that are of a few are completed", () => {
  const choices = all.flatMap(([name, { choices }]) => (choices ? [[name, choices]] : []))
  expect(choices).toEqual([
    ["dry-run", { ADD: ["ADD"] }],
    ["explain", { "ERROR|CODE|NAME|-…": [...new Set([...ruleNames, ...findingNames])].sort() }],
    ["schema", { PLUGIN: expect.arrayContaining(["conflist", "bridge", "vrf"]) }],
  ])
})
