import { expect, test } from "bun:test"
import { FileDescriptor, Open } from "./descriptor.ts"
import { CLONE_NEWNET, namespaceType, setNetworkNamespace } from "./process.ts"

test("a file of /proc tells that it is a network namespace, and other files do not", () => {
  using namespace = FileDescriptor.open("/proc/self/ns/net", Open.ReadOnly)
  expect(namespaceType(namespace.fd)).toBe(CLONE_NEWNET)
  using uts = FileDescriptor.open("/proc/self/ns/uts", Open.ReadOnly)
  expect(namespaceType(uts.fd)).toBe(0x04000000) // CLONE_NEWUTS, <linux/sched.h>
  using device = FileDescriptor.open("/dev/null", Open.ReadOnly)
  expect(() => namespaceType(device.fd)).toThrow("ENOTTY")
})

test("a thread cannot move into what is no network namespace", () => {
  using device = FileDescriptor.open("/dev/null", Open.ReadOnly)
  expect(() => setNetworkNamespace(device.fd)).toThrow(`setns descriptor ${device.fd}: Invalid argument (EINVAL)`)
})
