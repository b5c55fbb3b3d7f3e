import { expect, test } from "bun:test"
import type { Verb } from "../../pkg/skel/mod.ts"
import type { JsonObject, NetworkConfig } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseHostDeviceConfig } from "./config.ts"

const parse = (raw: JsonObject, verb: Verb = "ADD") => {
  const network = { name: "lab", cniVersion: "1.1.0", type: "host-device", dns: raw.dns } as NetworkConfig
  return parseHostDeviceConfig(network, { args: "", verb, raw })
}
const pci = "/sys/bus/pci/devices/0000:03:00.0"

test.each<[string, JsonObject, object]>([
  ["its name", { device: "ens5" }, { by: "name", key: "device", text: "ens5" }],
  [
    "an alternative name",
    { DEVICE: "enp0s31f6d1-of-the-lab" },
    { by: "name", key: "device", text: "enp0s31f6d1-of-the-lab" },
  ],
  [
    "its MAC, in any spelling",
    { hwaddr: "0A-00-00-00-00-05" },
    { by: "mac", key: "hwaddr", text: "0a:00:00:00:00:05" },
  ],
  [
    "its path in sysfs",
    { kernelpath: "/sys/devices/pci0000:00/0000:00:19.0" },
    {
      by: "path",
      key: "kernelpath",
      text: "/sys/devices/pci0000:00/0000:00:19.0",
      directories: ["/sys/devices/pci0000:00/0000:00:19.0"],
    },
  ],
  [
    "its place on the PCI bus",
    { pciBusID: "0000:03:00.0" },
    { by: "path", key: "pciBusID", text: "0000:03:00.0", directories: [pci] },
  ],
  [
    "what the runtime has chosen, before all else",
    { device: "ens5", hwaddr: "0a:00:00:00:00:05", RuntimeConfig: { deviceID: "0000:03:00.0" } },
    {
      by: "path",
      key: "runtimeConfig.deviceID",
      text: "0000:03:00.0",
      directories: [pci, "/sys/bus/auxiliary/devices/0000:03:00.0"],
    },
  ],
  [
    "its name, before the other keys; empty texts count as absent",
    { device: "ens5", hwaddr: "", kernelpath: "", pciBusID: "0000:03:00.0", runtimeConfig: { deviceID: "" } },
    { by: "name", key: "device", text: "ens5" },
  ],
])("a device is chosen by %s", (_, raw, selector) => {
  expect(parse(raw).selector).toEqual(selector as never)
})

test("a driver for user space is looked for at the device of the runtime, or of the network, for each key that chooses it", () => {
  expect(parse({ device: "ens5" }).pciBusID).toBeUndefined()
  expect(parse({ device: "ens5", pciBusID: "0000:03:00.0" }).pciBusID).toBe("0000:03:00.0")
  expect(parse({ pciBusID: "0000:03:00.0", runtimeConfig: { deviceID: "0000:04:00.0" } }).pciBusID).toBe("0000:04:00.0")
  expect(parse({ device: "ens5", DPDKMode: true }).pciBusID).toBeUndefined()
})

test("without a choice ADD and CHECK are refused in upstream's words; STATUS unless the runtime will choose", () => {
  const words = 'specify either "device", "hwaddr", "kernelpath" or "pciBusID"'
  for (const verb of ["ADD", "CHECK", "STATUS"] as const) {
    expect(refusalOf(() => parse({}, verb))).toMatchObject({ code: 7, message: words })
  }
  expect(parse({ capabilities: { deviceID: true } }, "STATUS").selector).toBeUndefined()
  for (const verb of ["DEL", "GC"] as const) expect(parse({}, verb).selector).toBeUndefined()
})

test("all that is not about the choice", () => {
  const rest = { mtu: undefined, pciBusID: undefined, dns: { domain: "a.example" }, ipam: "dhcp" }
  const raw = { device: "ens5", ipam: { type: "dhcp" }, dns: { domain: "a.example" } }
  expect(parse(raw)).toMatchObject({ selector: { by: "name", key: "device", text: "ens5" }, ...rest })
  expect(parse({ device: "ens5", ipam: { type: "" } })).toMatchObject({ ipam: undefined, dns: undefined })
})

test.each<[string, JsonObject]>([
  ["127 characters", { device: "x".repeat(127) }],
  ["one character", { pciBusID: "a" }],
  ["dots within", { pciBusID: "..a.." }],
  ["64 characters", { pciBusID: "0".repeat(64) }],
  ["4000 characters, two of them dots", { kernelpath: `/sys/devices/${"..x".padEnd(4000, "x")}` }],
])("a device may be called by %s", (_, raw) => {
  expect(parse(raw).selector?.text).toBe(Object.values(raw)[0] as string)
})

test.each<[JsonObject, string]>([
  [{ device: "a/b" }, "device"],
  [{ device: 5 }, "device"],
  [{ device: "x".repeat(128) }, "device"],
  [{ hwaddr: "0a:00" }, "hwaddr"],
  [{ kernelpath: "/sys/class/net/ens5" }, "kernelpath"],
  [{ kernelpath: "/sys/devices/../class/net/ens5" }, "kernelpath"],
  [{ kernelpath: "/sys/devices/pci0000:00/.." }, "kernelpath"],
  [{ kernelpath: "/x/sys/devices/pci0000:00" }, "kernelpath"],
  [{ kernelpath: `/sys/devices/${"x".repeat(4001)}` }, "kernelpath"],
  [{ pciBusID: "../../.." }, "pciBusID"],
  [{ pciBusID: ".." }, "pciBusID"],
  [{ pciBusID: "0".repeat(65) }, "pciBusID"],
  [{ pciBusID: "a\0" }, "pciBusID"],
  [{ device: "a\0b" }, "device"],
  [{ device: "a b" }, "device"],
  [{ device: "a:b" }, "device"],
  [{ pciBusID: "a b" }, "pciBusID"],
])("%j is refused by name, and counts as absent for DEL", (raw, key) => {
  expect(refusalOf(() => parse(raw))).toMatchObject({ code: 7, message: expect.stringContaining(`"${key}"`) })
  expect(parse(raw, "DEL").selector).toBeUndefined()
})

test.each([
  [{ device: "a/b" }, "the name of an interface of the host"],
  [{ kernelpath: "a/b" }, "a path below /sys/devices"],
  [{ pciBusID: "a/b" }, "a device ID such as 0000:03:00.0"],
  [{ runtimeConfig: { deviceID: "a/b" } }, "a device ID such as 0000:03:00.0"],
  [{ ipam: { type: 5 } }, "the name of an IPAM plugin"],
])("what %j had to be is told", (raw, expected) => {
  expect(refusalOf(() => parse({ device: "ens5", ...raw })).message).toContain(`expected ${expected}, found`)
})
