import { noKind } from "../../pkg/attachment/mod.ts"
import { freeTable, usedTables } from "../../pkg/ip/mod.ts"
import { isErrno, unlessErrno } from "../../pkg/libc/mod.ts"
import {
  addLink,
  deleteEach,
  deleteLink,
  findLink,
  forEachNsid,
  getLink,
  IFF_UP,
  type Link,
  linkData,
  listLinks,
  listLinksInside,
  type NetlinkSocket,
  setLink,
} from "../../pkg/netlink/mod.ts"
import { CniError, Code, type Owner, ownerComment, staleOf } from "../../pkg/types/mod.ts"
import { Failures, type Undo } from "../../pkg/undo/mod.ts"

export interface Vrf {
  link: Link
  table: number
}

export interface VrfSpec {
  name: string
  /** Undefined requests any free table. */
  table: number | undefined
  owner: Owner
}

/** Returns the VRF of this name; undefined if no link has it. Throws `CniError` if the link is of another kind. */
export function findVrf(inside: NetlinkSocket, name: string): Vrf | undefined {
  const link = findLink(inside, name)
  if (!link) return undefined
  const data = linkData(link, "vrf")
  if (data) return { link, table: data.table ?? 0 }
  throw new CniError(Code.Internal, `Cannot use "${name}" as a VRF: Netlink ${name} is not a VRF`, {
    details: `its kind is "${link.kind}": choose another "vrfname"`,
  })
}

/** Returns the VRF that this attachment's ADD created, if it exists. Throws `NetlinkError`. */
export function findVrfOf(inside: NetlinkSocket, owner: Owner): Vrf | undefined {
  const alias = ownerComment(owner)
  const [link] = listLinks(inside, ({ attributes }) => attributes.alias === alias, { kind: "vrf" })
  return link && { link, table: linkData(link, "vrf")?.table ?? 0 }
}

/** Returns the requested VRF, set up. If it does not exist, creates it with the owner as alias. Throws `CniError`. */
export function requireVrf(inside: NetlinkSocket, spec: VrfSpec, undo: Undo): Vrf {
  const vrf = findVrf(inside, spec.name) ?? createVrf(inside, spec, undo)
  if (spec.table !== undefined && spec.table !== vrf.table) {
    const found = `VRF ${spec.name} already exist with different routing table ${vrf.table}` // upstream's words
    throw new CniError(Code.Internal, `Cannot use table ${spec.table} for VRF "${spec.name}": ${found}`)
  }
  if ((vrf.link.flags & IFF_UP) === 0) {
    setLink(inside, vrf.link, { up: true })
    undo.defer("bring the VRF up", () => setLink(inside, vrf.link, { up: false }))
  }
  return vrf
}

/** The maximum number of attempts to find a free table. An attempt fails if another ADD uses the table first. */
const ATTEMPTS = 10

/**
 * Creates a VRF, like `ip link add NAME up type vrf table TABLE`. If two ADDs have chosen the same free table at the
 * same time, which the kernel allows, the later one, whose VRF has the higher index, chooses again.
 */
function createVrf(inside: NetlinkSocket, { name, table: given, owner }: VrfSpec, undo: Undo): Vrf {
  for (let attempt = 1; ; attempt++) {
    const table = given ?? freeTable(usedTables(inside), 1)
    addVrf(inside, name, table)
    let isOurs = true
    undo.defer(`create VRF "${name}"`, () => isOurs && deleteLink(inside, getLink(inside, name)))
    const link = getLink(inside, name)
    if (given === undefined && attempt < ATTEMPTS && isTakenBefore(inside, link, table)) {
      deleteLink(inside, link)
      isOurs = false
      continue
    }
    setLink(inside, link, { alias: ownerComment(owner) }) // for GC
    return { link, table }
  }
}

function addVrf(inside: NetlinkSocket, name: string, table: number): void {
  try {
    addLink(inside, { kind: "vrf", name, up: true, data: { table } })
  } catch (cause) {
    const details = isErrno(cause, "EOPNOTSUPP") ? { details: `${noKind("vrf")}: ${cause}` } : {}
    throw new CniError(Code.Internal, `Cannot create VRF "${name}" with table ${table}`, { cause, ...details })
  }
}

function isTakenBefore(inside: NetlinkSocket, { index }: Link, table: number): boolean {
  const isTaken = (link: Link) => link.index < index && linkData(link, "vrf")?.table === table
  const others = listLinks(inside, isTaken, { kind: "vrf" })
  return others.length > 0
}

/** Deletes a VRF if it has no interfaces, like `ip link delete NAME`. Throws `NetlinkError`. */
export function deleteVrfIfEmpty(inside: NetlinkSocket, { link }: Vrf): void {
  if (listLinks(inside, undefined, { master: link.index }).length > 0) return
  unlessErrno(() => deleteLink(inside, link), "ENODEV")
}

/**
 * Deletes the empty VRFs that stale attachments of this network left in running containers. The containers' namespaces
 * are found by their nsids, see `assignNsid`. If a container has too many links, its VRFs stay and a line is logged.
 * Throws `CniError` and `NetlinkError`.
 */
export function deleteEmptyOrphans(stale: {
  network: string
  valid: readonly Owner[]
  log: (line: string) => void
}): void {
  const isStale = staleOf(stale.network, stale.valid)
  const isOrphan = ({ attributes: { alias } }: Link) => alias !== undefined && isStale(alias)
  const failures = new Failures(stale.log) // a container that changes its links all the time must not stop the cleanup in others
  failures.attempt("list the links of all containers", () =>
    forEachNsid((host, nsid) =>
      failures.attempt(`delete VRFs in nsid ${nsid}`, () => {
        const orphans = listLinksInside(host, nsid, isOrphan, { kind: "vrf" })
        if (orphans.length === 0) return
        const ports = listLinksInside(host, nsid, ({ attributes }) => Boolean(attributes.master))
        const masters = new Set(ports.map(({ attributes }) => attributes.master))
        deleteEach(
          host,
          orphans.filter(({ index }) => !masters.has(index)),
          nsid,
        )
      }),
    ),
  )
  failures.throwIfAny()
}
