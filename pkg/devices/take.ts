import { unlessErrno } from "../libc/mod.ts"
import {
  addAltNames,
  assignNsid,
  findLink,
  findNsid,
  getLink,
  type Ifindex,
  type Link,
  listLinks,
  type NetlinkSocket,
  type RouteSocket,
  setLink,
} from "../netlink/mod.ts"
import type { Netns } from "../netns/mod.ts"
import { CniError, Code, type Owner, ownerComment } from "../types/mod.ts"
import type { Undo } from "../undo/mod.ts"
import { findInside, findOnHost, findRecorded, mayBeHidden } from "./find.ts"
import { type DeviceRecord, DeviceRecords, describeDevice, markOf } from "./record.ts"
import { returnRecorded } from "./return.ts"

interface Taking {
  call: { netns: string; ifName: string }
  owner: Owner
  host: RouteSocket
  sandbox: Netns
  inside: RouteSocket
  undo: Undo
}

/**
 * Moves a device from the host to a container as its interface, like `ip link set DEVICE netns NS name IFNAME`. Records
 * the identity and state of the device first. The caller holds the lock of the records. Throws `CniError`.
 */
export function takeDevice(taking: Taking, device: Link): Link {
  const { call, owner, host, sandbox, inside, undo } = taking
  const records = new DeviceRecords()
  refuseSecondDevice(host, records.read(owner), { device, owner })
  const record = recordOf(taking, device)
  // The reverse is also registered for a move whose answer is lost. Without a record the reverse does nothing.
  undo.defer(`take "${device.name}"`, () => {
    using _lock = records.lock()
    const written = records.read(owner)
    if (written) returnRecorded(host, { owner, record: written })
  })
  records.write({ owner, record })
  try {
    mark(host, device, owner)
    const { index: newIndex } = record
    setLink(host, device, { netnsFd: sandbox.fd, name: call.ifName, alias: device.name, newIndex })
  } catch (cause) {
    const moved = findInside(host, sandbox, record)
    if (moved?.name === call.ifName) return moved // only the answer was lost
    throw new CniError(Code.Internal, `Cannot move "${device.name}" to "${call.netns}" as "${call.ifName}"`, { cause })
  }
  const link = findLink(inside, record.index) ?? getLink(inside, call.ifName)
  // Kernels before 5.12 choose the index.
  if (link.index !== record.index) records.write({ owner, record: { ...record, index: link.index } })
  return link
}

/** Throws if this attachment's record has a device: a killed ADD left it, or ADD is repeated after a rename. */
function refuseSecondDevice(
  host: RouteSocket,
  earlier: DeviceRecord | undefined,
  { device, owner }: { device: Link; owner: Owner },
): void {
  if (!earlier || findOnHost(host, { owner, record: earlier })) return
  const isThere = findRecorded(host, earlier) !== undefined
  if (!isThere && !mayBeHidden(host, earlier)) return
  throw new CniError(
    Code.Internal,
    `Cannot take the device "${device.name}": ${ownerComment(owner)} has "${earlier.former.name}" already`,
    {
      details: isThere
        ? "DEL that attachment first"
        : "the container moved it to another namespace: run DEL for that attachment when the container has ended",
    },
  )
}

function recordOf({ host, sandbox, inside }: Taking, device: Link): DeviceRecord {
  assignNsid(host, sandbox.fd)
  const isTaken = findLink(inside, device.index) !== undefined
  const index = isTaken ? findFreeIndex(inside) : device.index
  const place = { netns: sandbox.inode, nsid: findNsid(host, sandbox.fd), index: index as Ifindex }
  return { ...describeDevice(device), ...place }
}

/** The largest index: 31 bits. */
const MAX_INDEX = 0x7fffffff

/** Returns a free index, above all others if possible. A container may have used even the largest index. */
function findFreeIndex(inside: NetlinkSocket): number {
  const taken = new Set<number>()
  let highest = 0
  listLinks(inside, ({ index }) => {
    taken.add(index)
    highest = Math.max(highest, index)
    return false
  })
  let free = Math.min(highest + 1, MAX_INDEX)
  while (taken.has(free)) free--
  return free
}

/**
 * Marks a device with its owner, which distinguishes a virtual device on the host from others of its kind. Omits the
 * mark if another link has it, or if it is too long for the kernel.
 */
function mark(host: NetlinkSocket, device: Link, owner: Owner): void {
  const add = () => addAltNames(host, device, [markOf(owner)])
  unlessErrno(add, "EEXIST", "EINVAL", "ENOSPC", "ENOMEM", "EOPNOTSUPP")
}
