import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import { findPosition } from "../pkg/engine/mod.ts"
import { pluginNames, pluginsInProcess, requirePlugin } from "../suite/plugins.ts"
import { bundle, encodePositions } from "./bundle.ts"
import { programsOf } from "./programs.ts"

/** Encodes a source map, ECMA-426. A part of a line is [column, file, source line, source column], from 0. */
function mappings(lines: readonly (readonly [number, number, number, number])[][]): string {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  const encode = (number: number) => {
    let [rest, text] = [number < 0 ? (-number << 1) | 1 : number << 1, ""]
    do {
      text += digits[(rest & 31) | (rest > 31 ? 32 : 0)]
      rest >>= 5
    } while (rest > 0)
    return text
  }
  let [file, line, sourceColumn] = [0, 0, 0]
  return lines
    .map((segments) => {
      let column = 0
      return segments
        .map((segment) => {
          const text = [segment[0] - column, segment[1] - file, segment[2] - line, segment[3] - sourceColumn].map(
            encode,
          )
          ;[column, file, line, sourceColumn] = segment
          return text.join("")
        })
        .join(",")
    })
    .join(";")
}

describe("the source of each line of a script", () => {
  const script = ["(() => {", "  one", "    two(three)", "", "  far", "  back", "entry", "  again", "})()"].join("\n")
  const map = {
    sources: ["pkg/a.ts", "pkg/b.ts", "cmd/x.bundle.ts"],
    mappings: mappings([
      [],
      [[2, 0, 9, 0]],
      [
        [0, 0, 9, 8], // the previous line extends to the first word
        [4, 0, 10, 2],
        [8, 0, 8, 4],
      ],
      [[0, 0, 8, 5]],
      [[2, 1, 1999, 0]],
      [[2, 1, 3, 0]],
      [[0, 2, 0, 0]],
      [[2, 0, 19, 0]],
    ]),
  }
  const table = ["other", "pkg/o.ts", "0:1", encodePositions("mine", script, map), "last", "pkg/l.ts", "0:1"].join("\n")

  test.each([
    [2, 3, "pkg/a.ts:10"],
    [3, 5, "pkg/a.ts:11"], // "two"
    [3, 8, "pkg/a.ts:11"], // the parenthesis after "two"
    [3, 9, "pkg/a.ts:9"], // "three" is on another line of the source
    [5, 3, "pkg/b.ts:2000"],
    [6, 3, "pkg/b.ts:4"],
    [8, 3, "pkg/a.ts:20"],
    [9, 1, "pkg/a.ts:20"],
  ])("line %d, column %d is %s", (line, column, source) => {
    expect(findPosition(table, "mine", line, column)).toBe(source)
  })

  test("is undefined before the first source, in the bundle's own entry, and in a bundle that does not exist", () => {
    expect(findPosition(table, "mine", 1, 1)).toBeUndefined()
    expect(findPosition(table, "mine", 7, 1)).toBeUndefined()
    expect(findPosition(table, "unknown", 2, 3)).toBeUndefined()
    expect(findPosition(table, "other", 1, 1)).toBe("pkg/o.ts:1")
    expect(findPosition(table, "last", 1, 1)).toBe("pkg/l.ts:1")
  })
})

test("all plugins' table is small and knows the line of each function that is called like no other", async () => {
  const { script, positions } = await bundle("plugins", await programsOf(...pluginNames))
  expect(positions.length).toBeLessThan(100_000)
  const lines = script.split("\n")
  let compared = 0
  for (const [index, text] of lines.entries()) {
    const [, name] = /^ {2}function (\w+[a-z])\(/.exec(text) ?? []
    const place = name && findPosition(positions, "plugins", index + 1, 3)
    if (!place || place.includes("node_modules")) continue
    const [file = "", line] = place.split(":")
    const source = await Bun.file(join(import.meta.dir, "..", file)).text()
    const found = source.split("\n")[Number(line) - 1]
    expect({ place, found }).toMatchObject({ found: expect.stringContaining(`function ${name}`) })
    compared++
  }
  expect(compared).toBeGreaterThan(300)
})

/** Returns the plugins in an executable for a plugin, each with the module of its definition. */
async function pluginsIn(name: string): Promise<string[]> {
  const { positions } = await bundle("plugins", await programsOf(name))
  const files = positions.split("\n")[1] ?? ""
  return [...files.matchAll(/(?:plugins|ipam|meta)\/([a-z-]+)\/main\.ts/g)].map(([, plugin = ""]) => plugin).sort()
}

describe("a plugin's file has that plugin, what runs in its process, and no other:", () => {
  test.each([...pluginNames])("%s", async (name) => {
    const others = pluginsInProcess(requirePlugin(name)).map((plugin) => plugin.name)
    expect(await pluginsIn(name)).toEqual([name, ...others].sort())
  })

  const ipam = ["dhcp", "host-local", "static"]
  test.each([
    ["portmap", []],
    ["loopback", []],
    ["tap", ipam],
    ["flannel", ["bridge", "host-device", "ipvlan", "macvlan", "ptp", ...ipam]],
  ])("%s with %j", async (name, others) => {
    expect(await pluginsIn(name)).toEqual([name, ...others].sort())
  })
})

test("the tool's script, with pages in it, is the same from every working directory", async () => {
  const print = `import { bundle } from "${import.meta.dir}/bundle.ts"
    import { toolPrograms } from "${import.meta.dir}/programs.ts"
    const { script, positions } = await bundle("tool", toolPrograms)
    process.stdout.write(script + positions)`
  const from = async (cwd: string) => {
    const child = Bun.spawn([process.execPath, "--eval", print], { cwd, stdout: "pipe" })
    return Bun.SHA256.hash(await new Response(child.stdout).bytes(), "hex")
  }
  expect(await from("/")).toBe(await from(join(import.meta.dir, "..")))
})
