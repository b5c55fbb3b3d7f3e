import { type Fields, parseConfig } from "../config/mod.ts"
import { decodeUtf8, encodeUtf8 } from "../engine/mod.ts"
import type { FileDescriptor } from "../libc/mod.ts"
import { IFF_UP, type Ifindex, LINK_OPTIONS, type Link } from "../netlink/mod.ts"
import { isRecordOf, ownerOfRecord, Records, recordName } from "../records/mod.ts"
import { readSysctl } from "../sysctl/mod.ts"
import { isJsonObject, type Owner, ownerComment, parseJson } from "../types/mod.ts"
import { type Identity, identityOf } from "./identity.ts"

/**
 * The directory of the records, which a reboot empties. They are useless by then, because a reboot recreates every
 * device.
 */
const DIRECTORY = "/run/cni/host-device"

/** The state of a device on the host, which DEL restores. */
export interface Former {
  name: string
  alias: string
  up: boolean
  /** The flags of `LINK_OPTIONS`. */
  options: number
  mtu: number
  mac: string
  altNames: readonly string[]
}

/** The record of an attachment's device. */
export interface DeviceRecord {
  device: Identity
  former: Former
  hostIndex: Ifindex
  /** The container's namespace: its inode, the host's nsid for it, and the device's index in it. */
  netns: bigint
  nsid: number | undefined
  index: Ifindex
}

/** A record of a device, and the attachment that has the device. */
export interface KeptRecord {
  owner: Owner
  record: DeviceRecord
}

const text = { kind: "text" } as const
const whole = { kind: "integer" } as const
const needed = { required: true } as const
const schema = {
  boot: { ...text, ...needed },
  former: {
    kind: "object",
    ...needed,
    fields: {
      name: { ...text, ...needed },
      alias: { ...text, ...needed },
      up: { kind: "boolean", ...needed },
      options: { ...whole, ...needed },
      mtu: { ...whole, ...needed },
      mac: { ...text, ...needed },
      altNames: { kind: "list", of: text, ...needed },
    },
  },
  device: {
    kind: "object",
    ...needed,
    fields: {
      kind: { ...text, ...needed },
      parent: text,
      bus: text,
      port: text,
      permanentMac: text,
      vlan: whole,
      other: whole,
      otherNsid: whole,
    },
  },
  hostIndex: { ...whole, ...needed },
  netns: { ...text, ...needed },
  nsid: whole,
  index: { ...whole, ...needed },
} as const satisfies Fields

export function describeDevice(link: Link): Pick<DeviceRecord, "device" | "former" | "hostIndex"> {
  const { name, flags, mtu, mac, index, attributes } = link
  const { alias = "", altNames = [] } = attributes
  const former = { name, alias, up: (flags & IFF_UP) !== 0, options: flags & LINK_OPTIONS, mtu, mac, altNames }
  return { device: identityOf(link), former, hostIndex: index }
}

export function encodeRecord({ former, device, hostIndex, netns, nsid, index }: DeviceRecord): Uint8Array {
  const record = { boot: bootId(), former, device, hostIndex, netns: String(netns), nsid, index }
  return encodeUtf8(`${JSON.stringify(record, null, 1)}\n`)
}

/**
 * Decodes the record of a device. Returns `undefined` for a malformed record, and for a record of an earlier boot,
 * whose device no longer exists. Throws `SyscallError` if the kernel's boot ID cannot be read, because a valid record
 * must not be mistaken for an old one.
 */
export function decodeRecord(bytes: Uint8Array): DeviceRecord | undefined {
  const current = bootId()
  try {
    const json = parseJson(decodeUtf8(bytes), "record")
    if (!isJsonObject(json)) return undefined
    const { boot, netns, nsid, index, hostIndex, ...rest } = parseConfig(schema, json)
    if (boot !== current) return undefined
    const indexes = { hostIndex: hostIndex as Ifindex, index: index as Ifindex }
    return { ...rest, ...indexes, nsid, netns: BigInt(netns) }
  } catch {
    return undefined
  }
}

function bootId(): string {
  return readSysctl("kernel/random/boot_id")
}

/**
 * Returns the alternative name that marks an owner. It is trusted only on the host, because a container can set any
 * name.
 */
export function markOf(owner: Owner): string {
  return ownerComment(owner).replaceAll("/", ":")
}

/** The records of devices in containers, each with the device's former state on the host. Only root can read them. */
export class DeviceRecords {
  readonly #files: Records

  constructor(directory: string = DIRECTORY) {
    this.#files = new Records(directory, "record")
  }

  /** Creates the directory and locks it, for ADD. Throws `CniError`. */
  open(): FileDescriptor | undefined {
    this.#files.make()
    return this.#files.lock()
  }

  /** Locks the records until disposal. Returns undefined if there are no records. Throws `CniError`. */
  lock(): FileDescriptor | undefined {
    return this.#files.lock()
  }

  /** Returns the record of an attachment. Throws `CniError`. */
  read(owner: Owner): DeviceRecord | undefined {
    const bytes = this.#files.read(recordName(owner))
    return bytes && decodeRecord(bytes)
  }

  /** Writes a record atomically. Throws `CniError`. */
  write({ owner, record }: KeptRecord): void {
    this.#files.write(recordName(owner), encodeRecord(record))
  }

  /** Removes the record of an attachment, and the draft of a killed call. Throws `CniError`. */
  remove(owner: Owner): void {
    this.#files.remove(recordName(owner))
  }

  /** Returns all records. Throws `CniError` and `SyscallError`. */
  list(): KeptRecord[] {
    return this.#files.list().flatMap((name) => {
      const owner = ownerOfRecord(name)
      const record = owner && this.read(owner)
      return owner && record ? [{ owner, record }] : []
    })
  }

  /** Returns a network's attachments that have a record or a draft of one. Throws `CniError` and `SyscallError`. */
  listOwners(network: string): Owner[] {
    const names = this.#files.list().map((name) => name.replace(/^\./, ""))
    return [...new Set(names)].flatMap((name) => (isRecordOf(name, network) ? (ownerOfRecord(name) ?? []) : []))
  }

  /** Throws `CniError` if a record could not be written. */
  requireWritable(): void {
    this.#files.requireWritable()
  }
}
