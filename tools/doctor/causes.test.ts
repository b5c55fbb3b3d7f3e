import { expect, test } from "bun:test"
import { byCause, describe } from "./causes.ts"
import type { Finding } from "./finding.ts"
import { Command, sh } from "./remedy.ts"

const down = (name: string, more: Partial<Finding> = {}): Finding => ({
  rule: "link-down",
  severity: "error",
  network: "pods",
  cause: "links",
  affected: [{ name }],
  what: `"${name}" is down`,
  ofMany: (count) => `${count} links are down`,
  why: "nothing passes",
  remedy: sh`ip link set ${name} up`,
  ...more,
})
const lineOf = ({ remedy }: Finding) => (remedy instanceof Command ? remedy.line : remedy)
const names = (findings: readonly Finding[]) =>
  findings.map(({ rule, affected = [] }) => [rule, ...affected.map(({ name }) => name)])

test("what has one rule and one cause is one finding with all its objects, and its commands are a loop", () => {
  const [one, ...more] = byCause([down("a"), down("b"), down("a"), down("c"), down("d")])
  expect(more).toEqual([])
  expect(one?.affected).toEqual(["a", "b", "c", "d"].map((name) => ({ name })))
  expect(one && lineOf(one)).toBe('for each in a b c d; do ip link set "$each" up; done')
  expect(one && describe(one)).toBe("4 links are down: a, b, c and 1 more")
  expect(one && describe(one, true)).toBe("4 links are down: a, b, c, d")
  expect(one?.network).toBe("pods")
})

test("one object is told in its own words; without a sentence for many, the others are named behind it", () => {
  expect(byCause([down("a")]).map((one) => describe(one))).toEqual(['"a" is down'])
  const { ofMany: _, ...plain } = down("a")
  const [two] = byCause([plain, { ...plain, affected: [{ name: "b" }] }])
  expect(two && describe(two)).toBe('"a" is down; and 1 more: b')
  expect(describe(down("a", { affected: [] }))).toBe('"a" is down')
})

test("what is particular to each object stands behind its name, also where two findings are about one", () => {
  const of = (name: string, detail: string) => down(name, { affected: [{ name, detail }] })
  const [one, ...more] = byCause([
    of("a", "port 1"),
    of("b", "port 2"),
    of("a", "port 3"),
    of("a", "port 1"),
    of("c", "port 4"),
  ])
  expect(more).toEqual([])
  expect(one && describe(one)).toBe("3 links are down: a: port 1, port 3; b: port 2; c: port 4")
  const [many] = byCause(["a", "b", "c", "d", "e"].map((name) => of(name, `port ${name}`)))
  expect(many && describe(many)).toBe("5 links are down: a: port a; b: port b; c: port c; and 2 more")
})

test("another rule, cause, severity, kind of remedy, and what --fix may not delete are findings of their own", () => {
  const others = [
    down("b", { rule: "mtu-mismatch" }),
    down("b", { cause: "else" }),
    down("b", { severity: "warning" }),
    down("b", { isFixable: true }),
    down("b", { remedy: "restart it" }),
  ]
  expect(byCause([down("a"), ...others])).toHaveLength(6)
  const { cause: _, ...alone } = down("a")
  expect(byCause([alone, alone])).toHaveLength(2)
})

test("a cause of several networks is of none; words are told once each", () => {
  const word = (network: string, remedy: string) => down(network, { network, remedy })
  const [one] = byCause([word("a", "x"), word("b", "y"), word("c", "x")])
  expect(one).not.toHaveProperty("network")
  expect(one?.remedy).toBe("x; y")
})

test("a consequence is left out for the objects of its cause, and kept for others", () => {
  const gone = down("a", { rule: "bridge-missing" })
  const ports = (name: string) =>
    down(name, { rule: "missing-ports", consequenceOf: ["bridge-missing", "clock-behind"] })
  expect(names(byCause([ports("a"), gone, ports("b")]))).toEqual([
    ["bridge-missing", "a"],
    ["missing-ports", "b"],
  ])
  expect(names(byCause([ports("a"), ports("b")]))).toEqual([["missing-ports", "a", "b"]])
  const both = { ...ports("a"), affected: [{ name: "a" }, { name: "b" }] }
  expect(names(byCause([gone, both]))).toEqual([
    ["bridge-missing", "a"],
    ["missing-ports", "b"],
  ])
})

test("a cause without objects explains all of its network, and one of the node all there is", () => {
  const full = (more: Partial<Finding>): Finding => ({ ...down("", more), rule: "disk-full", affected: [] })
  const status = down("", { rule: "status", affected: [], consequenceOf: ["disk-full"] })
  const port = down("a", { rule: "missing-ports", consequenceOf: ["disk-full"] })
  const rules = (...findings: Finding[]) => byCause(findings).map(({ rule }) => rule)
  expect(rules(full({}), status, port)).toEqual(["disk-full"])
  expect(rules(full({ network: "other" }), status, port)).toEqual(["disk-full", "status", "missing-ports"])
  const { network: _, ...ofNode } = full({})
  expect(rules(ofNode, status, port)).toEqual(["disk-full"])
  expect(rules(status, port)).toEqual(["status", "missing-ports"])
})
