import { expect, test } from "bun:test"
import { addedTo } from "./namespace-state.ts"
import { addedRules } from "./rules.ts"

/** Returns a table as `nft list table` prints it. */
const table = (elements: string, ...rules: string[]) => `table ip t {
	set s {
		type ipv4_addr
		elements = { ${elements} }
	}

	chain c {
		type nat hook postrouting priority srcnat; policy accept;
${rules.map((rule) => `\t\t${rule}\n`).join("")}	}
}
`

test("what was added stands below the headlines of its table, chain and set, each element on a line", () => {
  const before = { "ip t": table("10.0.0.1", "masquerade"), "ip same": "table ip same {\n}\n" }
  const after = { ...before, "ip t": table('10.0.0.1,\n\t\t\t     10.0.0.2 comment "a"', "masquerade", "counter") }
  expect(addedRules(before, after)).toBe(`table ip t {
  set s {
    elements = {
      10.0.0.2 comment "a"
    }
  }
  chain c {
    counter
  }
}
`)
  expect(addedRules(after, after)).toBe("")
  expect(addedRules(after, before)).toBe("")
})

test("a new table is there as a whole, without what iptables writes about itself", () => {
  expect(
    addedRules({}, { "ip n": `# Warning: table ip n is managed by iptables-nft\n${table("10.0.0.1", "drop")}` }),
  ).toBe(
    `table ip t {
  set s {
    type ipv4_addr
    elements = {
      10.0.0.1
    }
  }
  chain c {
    type nat hook postrouting priority srcnat; policy accept;
    drop
  }
}
`,
  )
})

test("a rule that moves to another chain is new there; an empty chain that is new, too", () => {
  const chains = (a: string, b: string) => `table ip t {\n\tchain a {\n${a}\t}\n\tchain b {\n${b}\t}\n}\n`
  const drop = "\t\tdrop\n"
  expect(addedRules({ "ip t": chains(drop, "") }, { "ip t": chains("", drop) })).toBe(
    "table ip t {\n  chain b {\n    drop\n  }\n}\n",
  )
  expect(addedRules({ "ip t": "table ip t {\n}\n" }, { "ip t": "table ip t {\n\tchain c {\n\t}\n}\n" })).toBe(
    "table ip t {\n  chain c {\n  }\n}\n",
  )
})

test("of links, addresses and routes the lines that were not there before", () => {
  const before = { links: ["a", "b"], addresses: ["1"], routes: [] }
  const after = { links: ["b", "c"], addresses: ["1", "2"], routes: ["x"] }
  expect(addedTo(before, after)).toEqual({ links: ["c"], addresses: ["2"], routes: ["x"] })
  expect(addedTo(after, after)).toEqual({ links: [], addresses: [], routes: [] })
})
