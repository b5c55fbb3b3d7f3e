import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { type Fd, FileDescriptor, ioctl, ioctlIfreq, isErrno, Open } from "../../pkg/libc/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { TapConfig } from "./config.ts"

/** The requests of `ioctl` for tap devices, <linux/if_tun.h>. */
const requests = {
  TUNSETIFF: 0x400454ca,
  TUNSETPERSIST: 0x400454cb,
  TUNSETOWNER: 0x400454cc,
  TUNSETGROUP: 0x400454ce,
} as const
export const IFF_TAP = 0x2
const IFF_MULTI_QUEUE = 0x100
const IFF_NO_PI = 0x1000 // no struct tun_pi before each frame
const IFF_VNET_HDR = 0x4000
const IFF_TUN_EXCL = 0x8000

/** A tap device to create. The plugin's README documents the keys. */
export interface TapDevice extends Pick<TapConfig, "multiQueue" | "vnetHdr" | "owner" | "group"> {
  name: string
}

/** Opens /dev/net/tun, which creates tap devices in the thread's namespace. Throws `CniError`. */
export function openTun(): FileDescriptor {
  try {
    return FileDescriptor.open("/dev/net/tun", Open.ReadWrite)
  } catch (cause) {
    throw noTun(cause)
  }
}

/** Returns the error for /dev/net/tun if it cannot be opened. */
export function noTun(cause: unknown): CniError {
  const why = isErrno(cause, "ENOENT", "ENODEV", "ENXIO") ? ': load the module "tun"' : ""
  return new CniError(Code.Internal, `Cannot open "/dev/net/tun"${why}`, { cause })
}

/** Returns the argument of `TUNSETIFF`, struct ifreq of <linux/if.h>: a name of 16 bytes and flags of 2 bytes. */
export function ifreqOf({ name, multiQueue, vnetHdr }: TapDevice): Uint8Array {
  const flags = IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL | (multiQueue ? IFF_MULTI_QUEUE : 0) | (vnetHdr ? IFF_VNET_HDR : 0)
  const ifreq = new Uint8Array(40)
  ifreq.set(encodeUtf8(name))
  ifreq.set([flags & 0xff, flags >> 8], 16)
  return ifreq
}

function set(fd: Fd, name: keyof typeof requests, value: number): void {
  ioctl(fd, `${name} ${value}`, requests[name], value)
}

/** Lets a user or group open the device. Throws `SyscallError`, or code 7 if the ID is outside the user namespace. */
export function setUser(fd: Fd, key: "owner" | "group", id: number): void {
  try {
    set(fd, key === "owner" ? "TUNSETOWNER" : "TUNSETGROUP", id)
  } catch (cause) {
    if (!isErrno(cause, "EINVAL")) throw cause
    const what = `Cannot use "${key}" ${id}: the plugin's user namespace does not have it`
    throw new CniError(Code.InvalidNetworkConfig, what, { cause })
  }
}

/**
 * Creates a persistent tap device in the thread's namespace, like `ip tuntap add name NAME mode tap user OWNER group
 * GROUP`. The device already exists while `prepare` runs, and is deleted if `prepare` throws. Throws `CniError`, or
 * `EBUSY` if the name is in use.
 */
export function createTap(device: TapDevice, prepare: () => void = () => undefined): void {
  const { owner, group } = device
  using file = openTun()
  ioctlIfreq(file.fd, "TUNSETIFF", requests.TUNSETIFF, ifreqOf(device))
  if (owner !== undefined) setUser(file.fd, "owner", owner)
  if (group !== undefined) setUser(file.fd, "group", group)
  prepare()
  set(file.fd, "TUNSETPERSIST", 1) // last, because before this the kernel deletes the device with its descriptor
}
