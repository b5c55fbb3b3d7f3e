import { expect, test } from "bun:test"
import { type RuleSet, RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { refusalOf } from "../../../pkg/types/testing.ts"
import { type Group, made, oneAddress, owner, ruleSet, rulesOf, specOf, standingBy, web } from "../testing/hostports.ts"
import { checkHostports } from "./check.ts"
import { conditionsChain } from "./conditions.ts"
import { tableLayout } from "./table.ts"

const spec = specOf(owner, ["10.1.0.2/16"], [web, oneAddress])
const complete = (...groups: readonly Group[]): RuleSet => ({ ...ruleSet(...groups), rules: rulesOf(16) })
const check = (rules: RuleSet, of = spec) => checkHostports(new RuleSetKernel(rules).socket, of)
const ours = made(owner, ["10.1.0.2/16"], [web, oneAddress])
const second = made({ ...owner, network: "net2", ifName: "eth1" }, ["10.2.0.9/16"], [web])

test("what ADD has made is as it should be, in force or standing by", () => {
  check(complete(...ours))
  const [ports, ...rest] = ours
  check(complete(...second.slice(0, 1), ...standingBy(ports ? [ports] : [], 1), ...rest))
})

test("a rule that is missing is named with those that have to be there", () => {
  const { message, code } = refusalOf(() => check({ ...complete(...ours), rules: rulesOf(24) }))
  expect(code).toBe(999)
  expect(message).toStartWith(
    'Cannot find a port mapping of lab/c1/eth0: expected the rules "ip cni_hostports prerouting ',
  )
  expect(message).toContain("from beside the container, /16")
  expect(message).toEndWith("; found not all of them")
  expect(() => check(complete(...ours), { ...spec, snat: false })).not.toThrow()
})

test.each([0, 1, 2, 3])("an element that is missing is named: number %d", (at) => {
  const { message } = refusalOf(() => check(complete(...ours.toSpliced(at, 1))))
  const expected = [
    'tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80 in ip cni_hostports ports',
    '192.0.2.1 . tcp . 8443 comment "lab/c1/eth0" : 10.1.0.2 . 443 in ip cni_hostports address_ports',
    '10.1.0.0 . 10.1.0.2 comment "lab/c1/eth0" in ip cni_hostports hairpin',
    '10.1.0.2 comment "lab/c1/eth0" in ip cni_hostports localhost',
  ]
  expect(message).toBe(`Cannot find a port mapping of lab/c1/eth0: expected ${expected[at]}; found none`)
})

test("an element of another owner, or that leads elsewhere, is told", () => {
  const theirs = made({ ...owner, containerId: "c9" }, ["10.1.0.9/16"], [web]).slice(0, 1)
  expect(() => check(complete(...theirs, ...ours.slice(1)))).toThrow(
    'found tcp . 8080 comment "lab/c9/eth0" : 10.1.0.9 . 80',
  )
  const moved = made(owner, ["10.1.0.7/16"], [web]).slice(0, 1)
  expect(() => check(complete(...moved, ...ours.slice(1)))).toThrow(
    'found tcp . 8080 comment "lab/c1/eth0" : 10.1.0.7 . 80',
  )
})

test("a mapping that stands by is an error when the first was removed", () => {
  const [ports, ...rest] = ours
  expect(() => check(complete(...standingBy(ports ? [ports] : [], 1), ...rest))).toThrow("; found none")
})

test("conditions are looked for where the mapping is in force; standing by, the chain will do", () => {
  const conditional = { ...specOf(owner, ["10.1.0.2/16"], [web]), conditions: { 2: ["ip saddr 1.2.3.4"], 10: [] } }
  const layout = tableLayout(2)
  const { name } = conditionsChain(layout, "lab/c1/eth0")
  const groups = made(owner, ["10.1.0.2/16"], [web])
  const led = { ...complete(...groups), rules: [...rulesOf(16)] }
  const jump = { family: 2, table: "cni_hostports", chain: "conditions", handle: 99n, expressions: [] }
  expect(() => check({ ...led, chains: [name] }, conditional)).toThrow(
    'expected a rule for "ip saddr 1.2.3.4" in chain ip cni_hostports conditions; found none',
  )
  expect(() => check({ ...led, rules: [...led.rules, { ...jump, comment: "lab/c2/eth0" }] }, conditional)).toThrow(
    "found none",
  )
  check({ ...led, rules: [...led.rules, { ...jump, comment: "lab/c1/eth0" }] }, conditional)

  const waiting = complete(...second.slice(0, 1), ...standingBy(groups.slice(0, 1), 1), ...groups.slice(1))
  check({ ...waiting, chains: [name] }, conditional)
  expect(() => check(waiting, conditional)).toThrow("found none")
})
