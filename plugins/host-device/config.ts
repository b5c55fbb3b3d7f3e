import {
  dns,
  type Fields,
  interfaceKeys,
  isCleanup,
  type KeyDoc,
  macAddressOrNone,
  ownDns,
  parseConfig,
} from "../../pkg/config/mod.ts"
import { auxiliaryDevice, pciDevice } from "../../pkg/devices/mod.ts"
import type { ConfigCall } from "../../pkg/skel/mod.ts"
import { CniError, Code, formatMac, type NetworkConfig, parseMac } from "../../pkg/types/mod.ts"

/** Returns a field for a text that counts as absent if it is empty, as in upstream. */
const textLike = (form: string, pattern: RegExp) => {
  const check = (text: string) => text === "" || pattern.test(text) || undefined
  return { kind: "text", expected: form, form, check, pattern: `^$|${pattern.source}` } as const
}

const deviceName = textLike("the name of an interface of the host", /^[^/:\s\0]{1,127}$/)
const deviceId = textLike("a device ID such as 0000:03:00.0", /^(?=.{1,64}$)[^/\s\0]*[^/\s.\0][^/\s\0]*$/)

export const hostDeviceFields = {
  device: deviceName,
  hwaddr: macAddressOrNone,
  kernelpath: textLike("a path below /sys/devices", /^\/sys\/devices\/(?!(.*\/)?\.\.(\/|$))[^\0]{1,4000}$/),
  pciBusID: deviceId,
  capabilities: { kind: "object", fields: { deviceID: { kind: "boolean" } } },
  runtimeConfig: { kind: "object", fields: { deviceID: deviceId } },
  acceptRa: interfaceKeys.acceptRa,
  dns,
  ipam: interfaceKeys.ipam,
} as const satisfies Fields

/** The documentation of the keys, the source of the table on the plugin's page, the schema and the manual page. */
export const hostDeviceKeyDocs: readonly KeyDoc[] = [
  {
    paths: ["runtimeConfig.deviceID"],
    meaning:
      "the device that the runtime chose for this container, on the PCI bus or the auxiliary bus: capability `deviceID`",
  },
  { paths: ["device"], meaning: "the device's name, or an alternative name" },
  {
    paths: ["hwaddr"],
    meaning:
      "the device's MAC; of several links with this MAC, the plugin takes the one with this permanent address, otherwise the first",
  },
  { paths: ["kernelpath"], meaning: "the device's path below `/sys/devices`" },
  {
    paths: ["pciBusID"],
    meaning:
      "the device's address on the PCI bus, such as `0000:03:00.0`, also of a virtio device; of several interfaces the plugin takes the first by name",
  },
  { paths: ["ipam.type"], meaning: "the IPAM plugin; without it the interface has no addresses" },
  {
    paths: ["acceptRa"],
    meaning:
      "accepts routes and addresses from router advertisements; off by default if IPAM gave the interface IPv6 addresses, otherwise the kernel decides",
  },
  {
    paths: ["dns"],
    meaning: "replaces the IPAM plugin's DNS if `dns` sets anything, even an empty list",
  },
]

/** How a configuration selects a device of the host: a key and its value. */
export type Selector =
  | { by: "name" | "mac"; text: string; key: string }
  | { by: "path"; text: string; key: string; directories: readonly string[] }

export type HostDeviceConfig = ReturnType<typeof parseHostDeviceConfig>

/** Parses the configuration. For DEL and GC, ignores invalid values; otherwise throws code 7 that names the key. */
export function parseHostDeviceConfig(network: NetworkConfig, { verb, raw }: ConfigCall) {
  const lenient = isCleanup(verb)
  const read = parseConfig(hostDeviceFields, raw, lenient)
  const deviceID = read.runtimeConfig?.deviceID || undefined
  const selector = selectorOf({ ...read, deviceID })
  if (!selector && !lenient && !(verb === "STATUS" && read.capabilities?.deviceID)) {
    const asUpstream = 'specify either "device", "hwaddr", "kernelpath" or "pciBusID"'
    throw new CniError(Code.InvalidNetworkConfig, asUpstream)
  }
  return {
    /** Undefined if the runtime selects a device for each container and has not done so yet. */
    selector,
    /** The address of the device on the PCI bus, if known, even if the device has a driver in user space. */
    pciBusID: (deviceID ?? read.pciBusID) || undefined,
    mtu: undefined,
    acceptRa: read.acceptRa,
    dns: ownDns(read.dns, network.dns),
    ipam: read.ipam?.type || undefined,
  }
}

type Selecting = Partial<Record<"device" | "hwaddr" | "kernelpath" | "pciBusID" | "deviceID", string | undefined>>

/** Returns how the device is selected. The runtime's choice for a container has precedence over the configuration. */
function selectorOf({ device, hwaddr, kernelpath, pciBusID, deviceID }: Selecting): Selector | undefined {
  const path = (key: string, text: string, ...directories: readonly string[]) =>
    ({ by: "path", key, text, directories }) as const
  if (deviceID) return path("runtimeConfig.deviceID", deviceID, pciDevice(deviceID), auxiliaryDevice(deviceID))
  if (device) return { by: "name", key: "device", text: device }
  if (hwaddr) return { by: "mac", key: "hwaddr", text: formatMac(parseMac(hwaddr) ?? new Uint8Array()) }
  if (kernelpath) return path("kernelpath", kernelpath, kernelpath)
  if (pciBusID) return path("pciBusID", pciBusID, pciDevice(pciBusID))
  return undefined
}
