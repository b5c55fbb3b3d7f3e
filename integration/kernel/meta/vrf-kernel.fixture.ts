import { type LinkKind, linkAttributes, linkKinds, NetlinkSocket, type RouteSocket } from "../../../pkg/netlink/mod.ts"
import { encodeMessage, readMessages } from "../../../pkg/netlink/testing.ts"
import { NETLINK_ROUTE, type Refusals, RefusingTransport } from "../refusing-kernel.fixture.ts"

const RTM_NEWLINK = 16
const RTM_GETLINK = 18 // may ask for links of a kind
/** Bytes of struct ifinfomsg. */
const HEADER = 16

/** The tables of the VRFs that were made, by their names; of all namespaces, since a test has a few. */
export type Tables = Map<string, number>

/**
 * rtnetlink of a kernel without VRFs as one with them: what is asked to be a VRF is made a bridge, and every bridge
 * that is in `tables` is shown as the VRF that it stands for. Masters, aliases, routes and rules are the kernel's own;
 * what it does not do is to move an interface's own routes into the VRF's table.
 */
class VrfTransport extends RefusingTransport {
  readonly #tables: Tables

  constructor(tables: Tables, refusals: Refusals, groups: number) {
    super(refusals, groups)
    this.#tables = tables
  }

  override send(datagram: Uint8Array): void {
    const messages = readMessages(datagram)
    const changed = messages.map(({ type, flags, sequence, payload }) => {
      const [header, attributes] = [payload.subarray(0, HEADER), payload.subarray(HEADER)]
      const asked = type === RTM_NEWLINK || type === RTM_GETLINK ? linkAttributes.decode(attributes) : undefined
      if (asked?.linkInfo?.kind !== "vrf") return encodeMessage(type, flags, sequence, payload)
      const { table = 0 } = linkKinds.vrf.decode(asked.linkInfo.data ?? new Uint8Array())
      if (asked.name) this.#tables.set(asked.name, table)
      const bridge = linkAttributes.encode({ ...asked, linkInfo: { kind: "bridge" } })
      return encodeMessage(type, flags, sequence, Buffer.concat([header, bridge]))
    })
    super.send(Buffer.concat(changed))
  }

  override receive(): Uint8Array {
    const messages = readMessages(super.receive().slice())
    const changed = messages.map(({ type, flags, sequence, payload }) => {
      const [header, attributes] = [payload.subarray(0, HEADER), payload.subarray(HEADER)]
      const shown = type === RTM_NEWLINK ? linkAttributes.decode(attributes) : undefined
      const table = shown?.linkInfo?.kind === "bridge" && shown.name ? this.#tables.get(shown.name) : undefined
      if (table === undefined) return encodeMessage(type, flags, sequence, payload)
      const linkInfo = { kind: "vrf" satisfies LinkKind, data: linkKinds.vrf.encode({ table }) }
      return encodeMessage(
        type,
        flags,
        sequence,
        Buffer.concat([header, linkAttributes.encode({ ...shown, linkInfo })]),
      )
    })
    return Buffer.concat(changed)
  }
}

/** A socket of that kernel in the thread's namespace. */
export function openVrfSocket(tables: Tables, refusals: Refusals, groups = 0): RouteSocket {
  return new NetlinkSocket(NETLINK_ROUTE, groups, new VrfTransport(tables, refusals, groups)) as RouteSocket
}
