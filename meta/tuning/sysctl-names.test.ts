import { expect, test } from "bun:test"
import fc from "fast-check"
import { sysctlPaths } from "./sysctl-names.ts"

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

test("whatever the key, the file is below net", () => {
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
