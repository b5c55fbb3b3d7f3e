import { describe, expect, test } from "bun:test"
import { DbusError } from "../../pkg/dbus/mod.ts"
import { RuleSetKernel } from "../../pkg/nftables/testing/rule-set-kernel.ts"
import { CniError } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { made, ruleSet, specOf } from "./testing/firewall.ts"
import { asFirewalld, Zones } from "./testing/zones.ts"
import { addSources, checkSources, findFirewalld, removeSources, sourcesOf } from "./zones.ts"

const { addresses } = specOf(2)
const own = ["trusted 10.1.0.2/32", "trusted fd00:1::2/128"]

/** Adds the addresses of number 2 to the zone "trusted". `noted` are the zones in other containers' notes. */
function add(zones: Zones, noted: readonly [number, string | undefined][] = [], isFiltering = true) {
  const log: string[] = []
  const { socket } = new RuleSetKernel(ruleSet(...noted.flatMap(([number, zone]) => made(specOf(number), zone))))
  const undo = new Undo((line) => log.push(line))
  const [firewalld, tell] = [asFirewalld(zones), (line: string) => void log.push(line)]
  addSources({ firewalld, zone: "trusted", socket, log: tell, isFiltering: () => isFiltering }, addresses, undo)
  return { log, undo }
}

describe("addresses", () => {
  test("become sources of the zone, once, and those that were none before go when ADD is undone", () => {
    const zones = new Zones(["trusted 10.1.0.2/32", "home 10.9.0.0/16"])
    const { undo, log } = add(zones)
    expect(zones.sources).toEqual(["trusted 10.1.0.2/32", "home 10.9.0.0/16", "trusted fd00:1::2/128"])
    expect(zones.asked).toBe(1)
    undo[Symbol.dispose]()
    expect(zones.sources).toEqual(["trusted 10.1.0.2/32", "home 10.9.0.0/16"])
    expect(log).toEqual([])
  })

  test("of all others that have a note become sources again, too, and stay", () => {
    const zones = new Zones(["home 10.1.0.4/32"])
    const { undo } = add(zones, [
      [2, "home"],
      [3, "trusted"],
      [4, "home"],
      [5, undefined],
    ])
    const others = ["trusted 10.1.0.3/32", "trusted fd00:1::3/128", "home fd00:1::4/128"]
    expect(zones.sources.slice(0, 3)).toEqual(["home 10.1.0.4/32", ...own])
    expect(zones.sources.slice(3).sort()).toEqual(others.sort())
    undo[Symbol.dispose]()
    expect(zones.sources.sort()).toEqual([...others, "home 10.1.0.4/32"].sort())
  })

  test("that are refused fail the ADD; those of others are a line of the log each", () => {
    expect(() => add(new Zones([], "trusted fd00:1::2/128"))).toThrow("refused: trusted fd00:1::2/128")
    const zones = new Zones([], "home 10.1.0.3/32")
    expect(add(zones, [[3, "home"]]).log).toEqual(["Error: refused: home 10.1.0.3/32; the next ADD tries again"])
    expect(zones.sources).toEqual([...own, "home fd00:1::3/128"])
    const none = new Zones([], "home 10.1.0.3/32", "home fd00:1::3/128", "home 10.1.0.4/32", "home fd00:1::4/128")
    const [line, ...more] = add(none, [
      [3, "home"],
      [4, "home"],
    ]).log
    expect(line).toEndWith("; and 3 more; the next ADD tries again")
    expect(more).toEqual([])
  })

  test("that firewalld cannot write into the kernel are a line of the log where its rules were flushed, and else fail the ADD", () => {
    const failed = new CniError(999, "Cannot add", { cause: new DbusError("COMMAND_FAILED: 'python-nftables' failed") })
    const flushed = new Zones([], failed, ...own)
    expect(add(flushed, [], false).log).toEqual([
      "Cannot add: COMMAND_FAILED: 'python-nftables' failed; and 1 more; the next ADD tries again",
    ])
    expect(() => add(new Zones([], failed, ...own))).toThrow("Cannot add")
    expect(() => add(new Zones([], ...own), [], false)).toThrow("refused")
  })

  test("are all removed, also when one cannot be, which is one line of the log", () => {
    const zones = new Zones([...own, "home 10.1.0.3/32"], ...own)
    const sources = [...own, "home 10.1.0.3/32"].map((text) => {
      const [zone = "", source = ""] = text.split(" ")
      return { zone, source }
    })
    const log: string[] = []
    removeSources(asFirewalld(zones), sources, (line) => log.push(line))
    expect(log).toEqual([
      "Error: refused: trusted 10.1.0.2/32; and 1 more; a reload or restart of firewalld removes it",
    ])
    expect(zones.sources).toEqual(own)
    removeSources(asFirewalld(new Zones([])), [], () => expect.unreachable())
  })
})

test("CHECK names the first source that is missing, and what is there", () => {
  const zones = new Zones(["trusted 10.1.0.2/32", "trusted 10.1.0.3/32"])
  const source = (source: string) => ({ zone: "trusted", source })
  checkSources(asFirewalld(zones), [source("10.1.0.2/32"), source("10.1.0.3/32")])
  expect(
    refusalOf(() => checkSources(asFirewalld(zones), [source("10.1.0.2/32"), source("10.1.0.4/32")])),
  ).toMatchObject({
    code: 999,
    message:
      'Cannot find the address 10.1.0.4/32 in zone "trusted" of firewalld: ' +
      "expected it among the zone's sources; found 10.1.0.2/32, 10.1.0.3/32",
    details: "firewalld loses sources when it is reloaded; the next ADD of any container adds all of them again",
  })
  const none = refusalOf(() => checkSources(asFirewalld(new Zones([])), [source("10.1.0.4/32")]))
  expect(none.message).toEndWith("; found none")
})

test("the sources of elements are those with a zone in the note, each once", () => {
  const [ip, other] = [Uint8Array.of(10, 1, 0, 2), Uint8Array.of(10, 1, 0, 3)]
  const elements = [
    { key: [ip], note: "1 - a zone" },
    { key: [ip], note: "2 - a zone" },
    { key: [ip], note: "1 - home" },
    { key: [other], note: "1 - home" },
    { key: [other], note: "1" },
    { key: [other] },
    { key: [], note: "1 - home" },
  ]
  expect(sourcesOf(elements)).toEqual([
    { zone: "a zone", source: "10.1.0.2/32" },
    { zone: "home", source: "10.1.0.2/32" },
    { zone: "home", source: "10.1.0.3/32" },
  ])
})

test.each(["nftables", "iptables"] as const)("for backend %s firewalld is not looked for", (backend) => {
  expect(
    findFirewalld(
      backend,
      () => expect.unreachable(),
      () => expect.unreachable(),
    ),
  ).toBeUndefined()
})

test("a bus that does not let us in is an error where firewalld is asked for or filters, and else a line of the log", () => {
  const log: string[] = []
  const refuse = () => {
    throw new Error("Cannot authenticate at the system bus")
  }
  const note = (line: string) => void log.push(line)
  const no = () => false
  expect(() => findFirewalld("firewalld", note, no, refuse)).toThrow("Cannot authenticate at the system bus")
  expect(log).toEqual([])
  expect(findFirewalld(undefined, note, no, refuse)).toBeUndefined()
  expect(log).toEqual(["Error: Cannot authenticate at the system bus"])
  expect(() => findFirewalld(undefined, note, () => true, refuse)).toThrow("Cannot authenticate at the system bus")
  const firewalld = asFirewalld(new Zones([]))
  for (const backend of ["firewalld", undefined] as const)
    expect(findFirewalld(backend, note, no, () => firewalld)).toBe(firewalld)
})
