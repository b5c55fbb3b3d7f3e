import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"
import { type Case, cases, placed } from "./cases.fixture.ts"
import { lint } from "./lint.ts"
import { ruleNames, rules } from "./rules.ts"
import { variants } from "./testing/variants.ts"

async function findingsOf({ files }: Pick<Case, "files">, serviceRanges: readonly string[] = []) {
  await using directory = await TemporaryDirectory.create()
  for (const [name, text] of Object.entries(files)) await Bun.write(directory.join(name), text)
  const { findings } = await lint(directory.path, { serviceRanges })
  return findings.map(({ file, ...finding }) => ({ ...finding, file: file.slice(directory.path.length + 1) }))
}

test("there is a case for every rule", () => {
  const without = ruleNames.filter((rule) => !cases.some((one) => one.rule === rule))
  expect(without).toEqual([])
})

/** Returns lint's findings in files as text: position, severity, message, rule, and hint. */
async function linesOf(files: Readonly<Record<string, string>>, serviceRange?: string): Promise<string[]> {
  const findings = await findingsOf({ files }, serviceRange === undefined ? [] : [serviceRange])
  return findings.flatMap(({ file, line, column, endColumn, severity, rule, message, hint }) => [
    `  ${file}:${line}:${column}-${endColumn} ${severity}: ${message.replace(/\(\/.*\//, "(DIR/")} [${rule}]`,
    ...(hint === undefined ? [] : [`    = ${hint.replace(/^known here: .*/, "known here: its keys")}`]),
  ])
}

function sectionsIn(name: string): ReadonlyMap<string, readonly string[]> {
  const sections = readFileSync(join(import.meta.dir, "testing", name), "utf8")
    .trimEnd()
    .split(/\n\n(?=\S)/)
  return new Map(
    sections.map((section) => section.trimEnd().split("\n")).map(([title = "", ...lines]) => [title, lines]),
  )
}
const [ofCases, ofVariants] = [sectionsIn("cases.txt"), sectionsIn("variants.txt")]

test.each(cases.filter(({ onNode }) => !onNode).map((one): [string, Case] => [`${one.rule}: ${one.what}`, one]))(
  "lint says what cases.txt has of %s",
  async (title, one) => {
    expect(await linesOf(placed(one).files, one.serviceRange)).toEqual([...(ofCases.get(title) ?? ["no such section"])])
  },
)

test.each(Object.entries(variants))("lint says what variants.txt has of %s", async (title, files) => {
  expect(await linesOf(files)).toEqual([...(ofVariants.get(title) ?? ["no such section"])])
})

const right = {
  cniVersion: "1.1.0",
  name: "lab",
  plugins: [
    {
      type: "bridge",
      isDefaultGateway: true,
      ipMasq: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/16" }], [{ subnet: "fd00:22::/64" }]] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
    { type: "tuning", capabilities: { mac: true }, sysctl: { "net.ipv4.conf.IFNAME.rp_filter": "2" } },
    { type: "another-suite", any: [{ key: 1 }] },
  ],
}

test("says nothing of a network that is right", async () => {
  expect(await findingsOf({ files: { "10-lab.conflist": JSON.stringify(right, undefined, 2) } })).toEqual([])
})

test("static with addresses that a pod chooses is warned of [S309]", async () => {
  const plugin = { type: "bridge", capabilities: { ips: true }, ipam: { type: "static" } }
  const of = (more: object) => {
    const text = JSON.stringify({ cniVersion: "1.1.0", name: "net", plugins: [{ ...plugin, ...more }] })
    return findingsOf({ files: { "10-net.conflist": text } })
  }
  expect(await of({})).toMatchObject([{ rule: "requested-address", severity: "warning" }])
  expect(await of({ capabilities: {}, ipam: { type: "static", addresses: [{ address: "192.0.2.9/24" }] } })).toEqual([])
})

test("lists of nerdctl have keys of its own", async () => {
  const text = JSON.stringify({ ...right, nerdctlID: "17f2", nerdctlLabels: {} })
  expect(await findingsOf({ files: { "nerdctl-lab.conflist": text } })).toEqual([])
})

test("says nothing of what is meant for other programs", async () => {
  const [bridge] = right.plugins
  const plugins = [{ ...bridge, _comment: "why", args: { labels: { a: "b" }, cni: { whereabouts: 1 } } }]
  const text = JSON.stringify({ $schema: "./conflist.json", ...right, plugins })
  expect(await findingsOf({ files: { "10-lab.conflist": text } })).toEqual([])
})

test("another suite's IPAM plugin may have any keys and capabilities", async () => {
  const plugins = [{ type: "macvlan", capabilities: { ips: true }, ipam: { type: "whereabouts", range: "10.0.0.0/8" } }]
  expect(await findingsOf({ files: { "10-lab.conflist": JSON.stringify({ ...right, plugins }) } })).toEqual([])
})

test("another suite's plugin may make the interface that chained plugins change", async () => {
  const plugins = [{ type: "calico" }, { type: "portmap", capabilities: { portMappings: true } }]
  expect(await findingsOf({ files: { "10-lab.conflist": JSON.stringify({ ...right, plugins }) } })).toEqual([])
})

test("a key of the runtime is told once, and not as an unknown one", async () => {
  const plugins = [{ type: "loopback", prevResult: {} }]
  const found = await findingsOf({ files: { "10-lab.conflist": JSON.stringify({ ...right, plugins }) } })
  expect(found.map(({ rule }) => rule)).toEqual(["reserved-key"])
})

test("every value that is wrong is told, not only the first", async () => {
  const plugins = [{ type: "bridge", mtu: "big", isGateway: 1, ipam: { type: "host-local", ranges: 5 } }]
  const found = await findingsOf({ files: { "10-lab.conflist": JSON.stringify({ ...right, plugins }) } })
  expect(found.map(({ rule, message }) => [rule, /"([^"]+)"/.exec(message)?.[1]])).toEqual([
    ["wrong-value", "mtu"],
    ["wrong-value", "isGateway"],
    ["wrong-value", "ipam.ranges"],
  ])
})

test("the plugins in a network's directory belong to its chain", async () => {
  const { plugins: _, ...list } = right
  const files = {
    "10-lab.conflist": JSON.stringify({ ...list, plugins: right.plugins.slice(0, 1) }),
    "lab/20-tuning.conf": '{ "type": "tuning", "mtu": "big" }',
  }
  const found = await findingsOf({ files })
  expect(found.map(({ file, rule, column }) => [file, rule, column])).toEqual([
    ["lab/20-tuning.conf", "wrong-value", 28],
  ])
})

test("columns count characters, not UTF-16 units", async () => {
  const text = '{ "cniVersion": "1.1.0", "name": "n", "plugins": [{ "type": "loopback", "_": "😀", "nmae": 1 }] }'
  const [found] = await findingsOf({ files: { "10-n.conflist": text } })
  expect([found?.rule, found?.column]).toEqual(["unknown-key", [...text.slice(0, text.indexOf('"nmae"'))].length + 1])
})

test("an unknown key comes with the one that was meant, or with all that there are", async () => {
  const hints = async (key: string) => {
    const plugins = [
      { type: "loopback", [key]: true },
      { type: "bridge", [key]: true },
    ]
    const found = await findingsOf({ files: { "10-lab.conflist": JSON.stringify({ ...right, plugins }) } })
    return found.map(({ hint }) => hint)
  }
  const [ofLoopback = "", ofBridge] = await hints("isDefaultGatway")
  expect(ofBridge).toBe('did you mean "isDefaultGateway"?')
  expect(ofLoopback).toMatch(/^known here: (\w+, )+type$/)
  const known = ofLoopback.slice("known here: ".length).split(", ")
  expect(known).toEqual(known.toSorted())
  for (const key of ["args", "capabilities", "cniVersion", "dns", "ipam", "name"]) expect(known).toContain(key)
  expect(known).not.toContain("isDefaultGateway")
})

test("the page has a section for every rule, with its severity, in the order of the rules", async () => {
  const page = await Bun.file(join(import.meta.dir, "../../docs/lint.md")).text()
  const sections = [...page.matchAll(/^### ([a-z-]+)\n\n(Error|Warning|Note)\b/gm)].map(([, rule, severity]) => [
    rule,
    severity?.toLowerCase(),
  ])
  expect(sections).toEqual(ruleNames.map((rule) => [rule, rules[rule] === "info" ? "note" : rules[rule]]))
})
