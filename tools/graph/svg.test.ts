import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { escaped } from "./boxes.ts"
import { svgOf } from "./svg.ts"
import { memberOf, segmentOf, some } from "./testing/graphs.ts"

const found = (svg: string, pattern: RegExp) => [...svg.matchAll(pattern)].map(([, each = ""]) => each)
const size = (svg: string) => found(svg, /viewBox="([^"]+)"/g)[0]
const members = (count: number) => Array.from({ length: count }, (_, at) => memberOf(`p${at}`))
const pictureOf = (count: number) => svgOf({ uplinks: [], segments: [segmentOf(members(count))] })
/** Returns the texts of a graph's only container and its segment. */
const textsOf = (member: Parameters<typeof memberOf>[1], segment: Parameters<typeof segmentOf>[1] = {}, title = "c1") =>
  found(svgOf({ uplinks: [], segments: [segmentOf([memberOf(title, member)], segment)] }), /y="\d+">([^<]*)<\/text>/g)

test("a node with some of everything is drawn as in some.svg", () => {
  expect(svgOf(some, "light")).toBe(readFileSync(join(import.meta.dir, "testing/some.svg"), "utf8"))
})

test("a node with nothing is a picture that says so", () => {
  const empty = svgOf({ uplinks: [], segments: [] })
  expect(found(empty, /(<text.*<\/text>)/g)).toEqual([
    '<text class="head" x="24" y="32">HOST</text>',
    '<text class="head" x="308" y="32">SEGMENTS</text>',
    '<text class="head" x="576" y="32">CONTAINERS</text>',
    '<text class="dim" x="308" y="68">No attachments</text>',
  ])
  expect(size(empty)).toBe("0 0 812 104")
})

test.each([
  [1, 1],
  [6, 1],
  [7, 2],
  [12, 2],
  [13, 3],
  [27, 3],
  [28, 4],
  [192, 8],
  [200, 8],
])("%d containers are set in %d columns", (count, columns) => {
  const lefts = found(pictureOf(count), /<g class="member".*?\n.*\n.*\n.*?<rect class="box" x="(\d+)"/g)
  expect(lefts).toHaveLength(count)
  expect(new Set(lefts).size).toBe(columns)
})

test("the picture is as high as the higher of host and segments", () => {
  const uplinks = some.uplinks.slice(0, 1)
  expect(size(svgOf({ uplinks, segments: [] }))).toBe("0 0 812 162")
  expect(size(svgOf({ uplinks, segments: [segmentOf(members(1))] }))).toBe("0 0 812 162")
  expect(size(svgOf({ uplinks, segments: [segmentOf(members(2))] }))).toBe("0 0 812 210")
  expect(size(pictureOf(1))).toBe("0 0 812 141")
})

test("a column that is not full has as many lines as containers", () => {
  // 10 in two columns of 5; 13 in three columns of 5, 5 and 3; 16 in three of 6, 6 and 4; 28 in four of 7
  const stubs = (count: number) =>
    found(pictureOf(count), /<path class="wire" d="([^"]+)"/g)[0]?.match(/H\d+M|H\d+$/g)?.length
  for (const count of [10, 13, 16, 28]) expect(stubs(count)).toBe(count)
})

test("a line goes down as far as from the middle of the segment to the last container", () => {
  const path = (count: number) => found(pictureOf(count), /<path class="wire" d="([^"]+)"/g)[0]
  expect(path(1)).toBe("M504 78H564M564 70V78M564 70H576")
  expect(path(2)).toBe("M504 78H564M564 70V139M564 70H576M564 139H576")
})

test("without an uplink the way out begins in the middle, and without a label", () => {
  expect(found(pictureOf(1), /(<path class="wire plain".*)/g)).toEqual(['<path class="wire plain" d="M272 78H308"/>'])
  const elsewhere = svgOf({ uplinks: some.uplinks, segments: [segmentOf(members(1), { uplink: "uplink gone" })] })
  expect(found(elsewhere, /class="wire plain" d="([^"]+)"/g)).toEqual(["M272 78H308"])
})

test("labels are below one another, and in the singular for one port", () => {
  const labels = (more: Parameters<typeof segmentOf>[1]) =>
    found(svgOf({ uplinks: [], segments: [segmentOf(members(1), more)] }), /text-anchor="end" (.*?)<\/text>/g)
  expect(labels({ ports: 1 })).toEqual(['x="303" y="72">1 port'])
  expect(labels({ ports: 2, masquerades: true })).toEqual(['x="303" y="72">masq', 'x="303" y="94">2 ports'])
})

test("texts that are too long for their box end in dots", () => {
  const [fits, long] = ["x".repeat(26), "x".repeat(27)]
  expect(textsOf({}, {}, fits)).toContain(fits)
  expect(textsOf({}, {}, long)).toContain(`${"x".repeat(25)}…`)
  const address = "a".repeat(30)
  expect(textsOf({ addresses: [address] })).toContain(address)
  expect(textsOf({ addresses: [address, "b"] })).toContain(`${"a".repeat(29)}…`)
  expect(textsOf({ addresses: ["a", "b"] })).toContain("a b")
  expect(textsOf({ ports: ["1→1/tcp", "2→2/tcp"] })).toContain("ports 1→1/tcp 2→2/tcp")
  expect(textsOf({ orphan: ["x".repeat(18)] })).toContain(`orphan: ${"x".repeat(18)}`)
  expect(textsOf({ orphan: ["x".repeat(19)] })).toContain(`orphan: ${"x".repeat(17)}…`)
  expect(textsOf({}, { title: "t".repeat(24) })).toContain("t".repeat(24))
  expect(textsOf({}, { title: "t".repeat(25) })).toContain(`${"t".repeat(23)}…`)
  expect(textsOf({}, { addresses: ["a".repeat(28)] })).toContain("a".repeat(28))
  expect(textsOf({}, { addresses: ["a".repeat(29)] })).toContain(`${"a".repeat(27)}…`)
})

test("a segment says which networks it is of, unless it is the one of its name", () => {
  expect(textsOf({}, { networks: ["pods"] })).toContain("ptp")
  expect(textsOf({}, { networks: ["lan"] })).toContain("ptp · lan")
  expect(textsOf({}, { networks: ["pods", "lan"] })).toContain("ptp · pods, lan")
})

test("colours are those of a theme, or of what the viewer prefers", () => {
  const [light, dark] = [/svg\{--bg:#ffffff;[^}]+\}/, /svg\{--bg:#12171e;[^}]+\}/]
  const [inLight, inDark, inAuto] = (["light", "dark", undefined] as const).map((theme) =>
    svgOf({ uplinks: [], segments: [] }, theme),
  )
  expect(inLight).toMatch(light)
  expect(inLight).not.toMatch(dark)
  expect(inDark).toMatch(dark)
  expect(inDark).not.toMatch(light)
  expect(inDark).toContain(
    "<style>svg{--bg:#12171e;--fg:#e6ebf2;--dim:#9aa7b8;--line:#56657a;--box:#1c242e;--bridge:#17304f;--edge:#7fb2f0;--up:#183a26;--bad:#ff8a80;--warn:#ffcf70}\n",
  )
  expect(inAuto).toMatch(new RegExp(`${light.source}@media \\(prefers-color-scheme:dark\\)\\{${dark.source}\\}\n`))
})

test("markup in texts is escaped, and what XML cannot have is left out", () => {
  expect(escaped('<a href="x">&amp;</a>')).toBe("&lt;a href=&quot;x&quot;&gt;&amp;amp;&lt;/a&gt;")
  expect(escaped("a\x00b\x08c\x0bd\x0ce\x0ef\x1fg")).toBe("abcdefg")
  expect(escaped("\t\n\r é→")).toBe("\t\n\r é→")
})

const faults = (severity: "error" | "warning") => [
  { rule: "mtu-mismatch", severity, text: "MTU 1500 beside 1400: frames are dropped" },
  { rule: "mtu-mismatch", severity, text: "another" },
]

test("what doctor found is red at its box, an error more than a warning, with its words in the tooltip", () => {
  const drawn = (severity: "error" | "warning") => {
    const segment = segmentOf([memberOf("c1", { faults: faults(severity) }), memberOf("c2")], {
      faults: faults(severity),
    })
    const uplinks = some.uplinks.slice(0, 1).map((uplink) => ({ ...uplink, faults: faults(severity) }))
    return svgOf({ uplinks, segments: [segment], faults: faults(severity) })
  }
  const kinds = ["uplink", "node", "segment network", "member"]
  expect(found(drawn("error"), /<g class="([^"]+) faulty"/g).sort()).toEqual(kinds.toSorted())
  expect(found(drawn("warning"), /<g class="([^"]+) doubtful"/g).sort()).toEqual(kinds.toSorted())
  expect(found(drawn("error"), /<text class="bad"[^>]*>([^<]*)/g)).toEqual([
    ...["! mtu-mismatch", "! mtu-mismatch", "! mtu-mismatch", "! mtu-mismatch", "! mtu-mismatch"],
  ])
  expect(found(drawn("warning"), /(<text class="warn")/g)).toHaveLength(5)
  expect(found(drawn("error"), /(ERROR mtu-mismatch: MTU 1500 beside 1400: frames are dropped\nERROR)/g)).toHaveLength(
    4,
  )
})
