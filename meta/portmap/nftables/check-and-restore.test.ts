import { expect, test } from "bun:test"
import { printTransaction } from "../../../pkg/nftables/mod.ts"
import { type RuleSet, RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import { isCniError } from "../../../pkg/types/mod.ts"
import { type Group, made, owner, ruleSet, rulesOf, specOf, web } from "../testing/hostports.ts"
import { planRestore } from "./check.ts"

/** The namespace of a running process, so that the owner counts as existing. */
const NETNS = "/proc/self/ns/net"
const other = { ...owner, containerId: "c2" }
const api = { ...web, hostPort: 8081 }
const specs = [specOf(owner, ["10.1.0.2/16"], [web]), specOf(other, ["10.1.0.3/16"], [api])]
const first = made(owner, ["10.1.0.2/16"], [web])
const second = made(other, ["10.1.0.3/16"], [api])
const complete = (...groups: readonly Group[]): RuleSet => ({ ...ruleSet(...groups), rules: rulesOf(16) })

function planOn(rules: RuleSet, of = specs) {
  const kernel = new RuleSetKernel(rules)
  const { operations, became } = planRestore(kernel.socket, of)
  return {
    text: printTransaction(operations),
    became: became.map((one) => (isCniError(one) ? one.message : one)),
    asked: kernel.asked,
  }
}

test("where all is there nothing is planned, and each set is listed once, however many attachments there are", () => {
  const { text, became, asked } = planOn(complete(...first, ...second))
  expect({ text, became }).toEqual({ text: "", became: ["whole", "whole"] })
  expect(asked.filter((one) => one === "list ip ports")).toHaveLength(1)
  expect(new Set(asked).size).toBe(asked.length)
})

test("without a table it is made, with the mappings of all", () => {
  const { text, became } = planOn({ sets: [] })
  expect(became).toEqual(["missing", "missing"])
  for (const line of [
    "add table ip cni_hostports",
    'tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80, tcp . 8081 comment "lab/c2/eth0" : 10.1.0.3 . 80',
    'from beside the container, /16"',
  ])
    expect(text).toContain(line)
})

test("one element that is gone is the attachment's that lacks it", () => {
  expect(planOn(complete(...first.slice(1), ...second))).toMatchObject({
    text: 'create element ip cni_hostports ports { tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80 }\n',
    became: ["missing", "whole"],
  })
})

test("a rule that is gone is missing for all that need it", () => {
  const { text, became } = planOn({ ...complete(...first, ...second), rules: rulesOf(24) })
  expect(text).toContain("from beside the container, /16")
  expect(became).toEqual(["missing", "missing"])
})

test("a port that another container has by now stays that one's, and all else comes back", () => {
  const taken = made({ ...owner, containerId: "c9" }, ["10.1.0.9/16"], [web], NETNS).slice(0, 1)
  const { text, became } = planOn(complete(...taken, ...first.slice(1)))
  expect(became).toEqual([
    "Cannot map host port 8080/tcp to 10.1.0.2:80 for lab/c1/eth0: it is mapped to 10.1.0.9:80 for lab/c9/eth0",
    "missing",
  ])
  expect(text).not.toContain("8080")
  expect(text).toContain('8081 comment "lab/c2/eth0"')
})

test("of two that want one port the first is in force, and the second is refused", () => {
  const both = [specOf(owner, ["10.1.0.2/16"], [web], NETNS), specOf(other, ["10.1.0.3/16"], [web], NETNS)]
  const { text, became } = planOn({ sets: [] }, both)
  expect(became[0]).toBe("missing")
  expect(became[1]).toStartWith("Cannot map host port 8080/tcp to 10.1.0.3:80 for lab/c2/eth0")
  expect(text).toContain('8080 comment "lab/c1/eth0"')
})

test("a port of a container that is gone is given to the one that wants it", () => {
  const gone = made({ ...owner, containerId: "c9" }, ["10.1.0.9/16"], [web], "/nowhere").slice(0, 1)
  const { text, became } = planOn(complete(...gone, ...first.slice(1), ...second))
  expect(became).toEqual(["missing", "whole"])
  expect(text).toContain("delete element ip cni_hostports ports { tcp . 8080 }")
})
