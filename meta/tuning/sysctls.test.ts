import { expect, test } from "bun:test"
import fc from "fast-check"
import { findSysctls, type SysctlEntry, sameValue, sysctlPaths } from "./sysctls.ts"

// These tests only read sysctls of their own namespace, and never write them.

function entry(key: string, value: string, from: SysctlEntry["from"] = "sysctl"): SysctlEntry {
  return { key, value, from }
}

test("a sysctl is found with its value, in each spelling", () => {
  const [found] = findSysctls([entry("net.ipv4.conf.IFNAME.rp_filter", "5")], "lo")
  expect(found).toMatchObject({ path: "net/ipv4/conf/lo/rp_filter", value: "5", found: expect.stringMatching(/^\d$/) })
  expect(findSysctls([entry("net.ipv4/conf.lo/rp_filter", "5")], "lo")[0]?.path).toBe("net/ipv4/conf/lo/rp_filter")
})

test("one that can only be written is found without a value", () => {
  expect(findSysctls([entry("net.ipv4.route.flush", "1")], "lo")).toMatchObject([{ path: "net/ipv4/route/flush" }])
})

test("one setting in two spellings with two values is refused, with one value it is one", () => {
  const [a, b] = ["net.ipv4.conf.lo.rp_filter", "net/ipv4/conf/IFNAME/rp_filter"]
  expect(() => findSysctls([entry(a, "1"), entry(b, "2")], "lo")).toThrow(
    `duplicated sysctl keys are not allowed: "${a}" and "${b}" are one setting`,
  )
  expect(findSysctls([entry(a, "1"), entry(b, "1")], "lo")).toHaveLength(1)
})

test("args.cni wins over the top, in another spelling too, and keeps the place", () => {
  const [a, b] = ["net.ipv4.conf.lo.rp_filter", "net/ipv4/conf/lo/rp_filter"]
  const found = findSysctls([entry(a, "1"), entry("net.ipv4.ip_forward", "1"), entry(b, "2", "args.cni.sysctl")], "lo")
  expect(found.map(({ value }) => value)).toEqual(["2", "1"])
})

test("one that the kernel does not have is an error with key, value and errno", () => {
  expect(() => findSysctls([entry("net.ipv4.no_such_thing", "5")], "lo")).toThrow(
    'Cannot find sysctl "net.ipv4.no_such_thing" in the container: ENOENT',
  )
})

test("of two readings that do not exist the error is that of the likelier, and another refusal ends the search", () => {
  // "net/ipv4.conf" is not a file, "net/ipv4/conf" is a directory.
  expect(() => findSysctls([entry("net/ipv4.conf", "5")], "lo")).toThrow(/in the container: ENOENT$/)
  // As written, the key is too long for a path. With dots as separators, repeated ones count once, and the file would
  // exist.
  const long = `net/ipv4.conf.lo${".".repeat(5000)}rp_filter`
  expect(sysctlPaths(long, "lo")[1]).toBe("net/ipv4/conf/lo/rp_filter")
  expect(() => findSysctls([entry(long, "5")], "lo")).toThrow(/in the container: ENAMETOOLONG$/)
})

test("values are compared as the kernel takes them: by their words", () => {
  expect(sameValue("4096\t131072\t6291456", "4096  131072 6291456 ")).toBe(true)
  expect(sameValue("", " ")).toBe(true)
  expect(sameValue("1", "10")).toBe(false)
  expect(sameValue(undefined, "")).toBe(false)
})

test.each([
  ["net.ipv4.ip_forward", ["net/ipv4/ip_forward"]],
  ["net/ipv4/ip_forward", ["net/ipv4/ip_forward"]],
  ["/net/ipv4//ip_forward", ["net/ipv4/ip_forward"]],
  ["net.ipv4.conf.IFNAME.rp_filter", ["net/ipv4/conf/eth0.5/rp_filter"]],
  ["net/ipv4/conf/IFNAME/rp_filter", ["net/ipv4/conf/eth0.5/rp_filter"]],
])("%s is one file with either separator", (key, paths) => {
  expect(sysctlPaths(key, "eth0.5")).toEqual(paths)
})

test("an interface name with a dot can be written with the other separator, as for sysctl(8)", () => {
  expect(sysctlPaths("net.ipv4.conf.eth0/5.rp_filter", "x")[0]).toBe("net/ipv4/conf/eth0.5/rp_filter")
  expect(sysctlPaths("net/ipv4/conf/eth0.5/rp_filter", "x")[0]).toBe("net/ipv4/conf/eth0.5/rp_filter")
})

test("where separators are mixed, upstream's reading comes second", () => {
  expect(sysctlPaths("net.ipv4.conf/eth0/rp_filter", "x")).toEqual([
    "net/ipv4/conf.eth0.rp_filter",
    "net/ipv4/conf/eth0/rp_filter",
  ])
})

test("only the first IFNAME is replaced, and by the name as it is", () => {
  expect(sysctlPaths("net.ipv4.neigh.IFNAME.IFNAME", "$&")).toEqual(["net/ipv4/neigh/$&/IFNAME"])
})

test("for every key the file is below net", () => {
  const words = fc.constantFrom("net", "..", ".", "/", "ipv4", "IFNAME", "kernel", "\0", "x")
  fc.assert(
    fc.property(fc.array(words, { maxLength: 8 }), (parts) => {
      let paths: string[]
      try {
        paths = sysctlPaths(parts.join(""), "eth0")
      } catch (error) {
        expect(String(error)).toContain("invalid net sysctl key")
        return
      }
      for (const path of paths) {
        expect(path).toStartWith("net/")
        expect(path.split("/")).not.toContainAnyValues(["..", ".", ""])
      }
    }),
  )
})
