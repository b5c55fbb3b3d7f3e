/** Tests how `pkg/devices` finds devices and their drivers on a real kernel. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type * as devices from "../../../pkg/devices/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { type Kit, runOnHost } from "./rooms.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create("devices")
  pod = await host.addContainer()
})
afterAll(() => host[Symbol.asyncDispose]())

const onHost = <T>(body: (kit: Kit & typeof devices) => T) =>
  runOnHost<T, typeof devices>(host, pod, body, { more: ["devices/mod.ts"] })

test("a device whose namespace no longer exists is waited for until the host has it again", async () => {
  const counts = await onHost(({ host, returnDevice, NamespaceFile }) => {
    const owner = { network: "lab", containerId: "c9", ifName: "eth0" }
    const place = { owner, ifName: "eth0", mayBe: () => true, log: () => {}, name: undefined }
    return ["", "/proc/thread-self/ns/net"].map((path) => {
      let asked = 0
      const hasReturned = () => ++asked > 0
      returnDevice(host, { ...place, namespace: NamespaceFile.open(path), hasReturned })
      return asked
    })
  })
  expect(counts).toEqual([1, 0])
})

test("the driver of a PCI device is where sysfs has it, and each of a list is looked for", async () => {
  await host.exec("mount", ["-t", "tmpfs", "sysfs-of-test", "/sys/bus"])
  await host.exec("mkdir", ["-p", "/sys/bus/pci/drivers/vfio-pci/0000:03:00.0"])
  const found = await onHost(({ hasDriver }) =>
    [["vfio-pci"], ["uio_pci_generic", "vfio-pci"], ["uio_pci_generic"], []].map((drivers) =>
      hasDriver("0000:03:00.0", drivers),
    ),
  )
  expect(found).toEqual([true, true, false, false])
})
