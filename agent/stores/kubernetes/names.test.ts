import { expect, test } from "bun:test"
import { objectName } from "./names.ts"

test.each([
  ["registry", "pools", "pools"],
  ["node", "node-1.example.com", "node-1.example.com"],
  ["block", "pods/10.64.3.0/26", "pods-10.64.3.0-26"],
  ["block", "pods/fd00:64::/80", "pods-fd00-0064-0000-0000-0000-0000-0000-0000-80"],
  ["block", "pods/::/80", "pods-0000-0000-0000-0000-0000-0000-0000-0000-80"],
  ["fixed", "db/mysql-0/eth0", "db.mysql-0.eth0"],
  ["want", "pods/node-1.example.com", "pods.node-1.example.com"],
] as const)("the object of %s %s is called %s", (kind, key, name) => {
  expect(objectName(kind, key)).toBe(name)
})

test.each([
  ["block", "pods.v6/10.64.3.0/26"],
  ["block", "Pods/10.64.3.0/26"],
  ["fixed", "db/mysql-0/eth0.100"],
  ["fixed", "db/mysql-0/ETH0"],
  ["fixed", `${"a".repeat(63)}/${"b".repeat(200)}/eth0`],
  ["want", "pods.v6/node-1"],
  ["node", "node_1"],
] as const)("a key that makes no name is a digest: %s %s", (kind, key) => {
  expect(objectName(kind, key)).toMatch(/^sha256-[0-9a-f]{64}$/)
})

test("two keys that would read alike have two names", () => {
  const keys = [
    ["block", "a/fd00:64::/80"],
    ["block", "a-fd00/64::/80"],
    ["block", "a-fd00-0064/::/80"],
    ["fixed", "db/mysql-0/eth0"],
    ["fixed", "db/mysql-0.eth0/x"],
    ["fixed", "db.mysql-0/eth0/x"],
    ["want", "a/b.c"],
    ["want", "a.b/c"],
  ] as const
  expect(new Set(keys.map(([kind, key]) => objectName(kind, key))).size).toBe(keys.length)
})
