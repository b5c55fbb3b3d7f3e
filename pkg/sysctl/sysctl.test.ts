import { expect, test } from "bun:test"
import {
  findSysctl,
  isWriteOnly,
  readSysctl,
  requireSettable,
  sysctlPath,
  tryReplaceSysctl,
  tryWriteSysctl,
  writeSysctl,
} from "./mod.ts"

test("the first separator of a name decides what the others are", () => {
  expect(sysctlPath("net.ipv4.ip_forward")).toBe("/proc/sys/net/ipv4/ip_forward")
  expect(sysctlPath("net/ipv4/ip_forward")).toBe("/proc/sys/net/ipv4/ip_forward")
  expect(sysctlPath("net.ipv4.conf.eth0/100.arp_notify")).toBe("/proc/sys/net/ipv4/conf/eth0.100/arp_notify")
  expect(sysctlPath("net/ipv4/conf/eth0.100/arp_notify")).toBe("/proc/sys/net/ipv4/conf/eth0.100/arp_notify")
})

test("a name cannot leave /proc/sys [S18]", () => {
  for (const name of ["net/../../etc/passwd", "/etc/passwd", "net//ipv4", "", "net/./ipv4", ".net.ipv4"]) {
    expect(() => sysctlPath(name)).toThrow(new RangeError(`"${name}" is not the name of a kernel setting`))
  }
})

test("a setting reads as the kernel prints it, without the line end", () => {
  expect(readSysctl("kernel.ostype")).toBe("Linux")
})

test("a setting that the kernel does not have is ENOENT", () => {
  expect(() => readSysctl("net/ipv4/no_such_setting")).toThrow("ENOENT")
})

test("a setting that can only be written cannot be read, and is not found, like one that does not exist", () => {
  expect(() => readSysctl("net/ipv4/route/flush")).toThrow("EACCES")
  expect(findSysctl("net/ipv4/route/flush")).toBeUndefined()
  expect([isWriteOnly("net/ipv4/route/flush"), isWriteOnly("kernel.ostype")]).toEqual([true, false])
  expect(findSysctl("net/ipv4/no_such_setting")).toBeUndefined()
  expect(findSysctl("kernel.ostype")).toBe("Linux")
})

// kernel.ostype is read-only even for root.
test("a setting that cannot be written is an error, unless it has the value already", () => {
  expect(() => writeSysctl("kernel.ostype", "Linux")).not.toThrow()
  expect(() => writeSysctl("kernel.ostype", "Minix")).toThrow("EACCES")
  expect(() => requireSettable("kernel.ostype", "Linux")).not.toThrow()
  expect(() => requireSettable("kernel.ostype", "Minix")).toThrow("EACCES")
  expect(tryWriteSysctl("kernel.ostype", "Linux")).toBe(true)
  expect(tryWriteSysctl("kernel.ostype", "Minix")).toBe(false)
  expect(tryWriteSysctl("net/ipv4/no_such_setting", "1")).toBe(false)
})

test("a setting that is not replaced has no value before", () => {
  expect(tryReplaceSysctl("kernel.ostype", "Linux")).toBeUndefined()
  expect(tryReplaceSysctl("kernel.ostype", "Minix")).toBeUndefined()
  expect(tryReplaceSysctl("net/ipv4/no_such_setting", "1")).toBeUndefined()
})
