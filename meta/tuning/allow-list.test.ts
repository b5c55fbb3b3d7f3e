import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { refuseForbidden } from "./allow-list.ts"

const directory = mkdtempSync(join(tmpdir(), "tuning-allow-list-"))
afterAll(() => rmSync(directory, { recursive: true }))

function listOf(text: string): string {
  const path = join(directory, crypto.randomUUID())
  writeFileSync(path, text)
  return path
}

function sysctls(...keys: string[]) {
  return keys.map((key) => ({ key, value: "1", from: "sysctl" as const }))
}

test("without a list everything is allowed", () => {
  expect(() => refuseForbidden(sysctls("net.ipv4.ip_forward"), join(directory, "none"))).not.toThrow()
})

test("with a list every sysctl has to match a line, as it is written", () => {
  const list = listOf("^net\\.core\\.\n\n  ^net\\.ipv4\\.conf\\.IFNAME\\.[a-z_]*$  \r\n")
  expect(() => refuseForbidden(sysctls("net.core.somaxconn", "net.ipv4.conf.IFNAME.rp_filter"), list)).not.toThrow()
  expect(() => refuseForbidden(sysctls("net.core.somaxconn", "net/ipv4/conf/IFNAME/rp_filter"), list)).toThrow(
    "Sysctl net/ipv4/conf/IFNAME/rp_filter is not allowed. Only the following sysctls are allowed: " +
      "[^net\\.core\\. ^net\\.ipv4\\.conf\\.IFNAME\\.[a-z_]*$]",
  )
})

test("a list without lines allows nothing, and is not asked when there is nothing to allow", () => {
  const list = listOf("\n \n")
  expect(() => refuseForbidden(sysctls("net.ipv4.ip_forward"), list)).toThrow("allowed: []")
  expect(() => refuseForbidden([], list)).not.toThrow()
})

test("a pattern may match anywhere in the key, as for upstream", () => {
  expect(() => refuseForbidden(sysctls("net.ipv4.tcp_rmem"), listOf("tcp"))).not.toThrow()
})

test("a list that cannot be used is an error, and allows nothing", () => {
  expect(() => refuseForbidden(sysctls("net.a"), listOf("net\n\n("))).toThrow(
    /^Cannot use line 3 of the allow list ".*": "\(" is not a regular expression$/,
  )
  expect(() => refuseForbidden(sysctls("net.a"), directory)).toThrow(`Cannot read the allow list "${directory}"`)
})

test("a name that is longer than any path is not allowed by any list", () => {
  const key = (length: number) => `net.${"a".repeat(length - 4)}`
  expect(() => refuseForbidden(sysctls(key(4096)), listOf("."))).not.toThrow()
  expect(() => refuseForbidden(sysctls(key(4097)), listOf("."))).toThrow("is not allowed")
})

test("names of more than 16,384 characters together are refused at once, for every pattern", () => {
  const keys = (count: number) => Array.from({ length: count }, (_, at) => `net.${`${at}`.padStart(60, "a")}`)
  const list = listOf("([a-z.]+[0-9]*)+$")
  expect(() => refuseForbidden(sysctls(...keys(256)), list)).not.toThrow()
  const before = process.cpuUsage()
  const tooMany =
    'Cannot use "sysctl": its names have 3200000 characters in total, but an allow list supports at most 16384'
  expect(() => refuseForbidden(sysctls(...keys(50_000)), list)).toThrow(tooMany)
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(1)
})
