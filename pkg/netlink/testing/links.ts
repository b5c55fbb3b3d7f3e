import type { Infer } from "../codec.ts"
import { type LinkKind, linkAttributes, linkHeader, linkKinds } from "../link-table.ts"
import type { Ifindex } from "../links.ts"
import { encodeMessage, type Message } from "../message.ts"
import { NETLINK_ROUTE, NetlinkSocket } from "../socket.ts"
import { acknowledge, done, ScriptedKernel } from "../testing.ts"

export interface KernelLink extends Omit<Infer<typeof linkAttributes>, "linkInfo"> {
  readonly index: number
  readonly name: string
  readonly flags?: number
  readonly kind?: LinkKind
  /** `IFLA_INFO_DATA`, which `linkKinds` has encoded. */
  readonly data?: Uint8Array
  readonly slaveKind?: string
  readonly slaveData?: Uint8Array
}

/** A request that a scripted kernel has received: its attributes, and the index and flags in its header. */
export interface LinkRequest extends Omit<Infer<typeof linkAttributes>, "linkInfo"> {
  readonly verb: "add" | "set" | "delete"
  readonly index: number
  readonly flags: number
  readonly change: number
  readonly kind?: string | undefined
  readonly data?: unknown
}

const [RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_NEWNSID, RTM_GETNSID] = [16, 17, 18, 88, 90]
const [NLM_F_DUMP, NLM_F_CREATE] = [0x300, 0x400]
const ENODEV = 19

/** The nsid of every other namespace on a scripted kernel. */
export const nsid = 3

type Answers = Readonly<Record<number, readonly Uint8Array[] | (() => readonly Uint8Array[])>>

/**
 * Replaces rtnetlink in a test: answers from a list of links, adds created links to the list, and records every other
 * request. `answers` are the payloads of other lists, by the type of the request, or functions that return them.
 * `refusal` returns the errno for a request, 0 for success.
 */
export class LinksKernel {
  /** The received requests that change links. */
  readonly links: LinkRequest[] = []
  /** The other received requests, unmodified. */
  readonly others: Message[] = []
  readonly socket: NetlinkSocket
  readonly #present: KernelLink[]
  readonly #answers: Answers
  readonly #refusal: (request: Message) => number

  constructor(
    present: readonly KernelLink[],
    { answers = {}, refusal = () => 0 }: { answers?: Answers; refusal?: (request: Message) => number } = {},
  ) {
    this.#present = [...present]
    this.#answers = answers
    this.#refusal = refusal
    this.socket = new NetlinkSocket(NETLINK_ROUTE, 0, new ScriptedKernel((request) => this.#answer(request)))
  }

  #answer(request: Message): Uint8Array[] {
    const [family = 0] = request.payload
    const isDump = (request.flags & NLM_F_DUMP) === NLM_F_DUMP
    if (isDump) {
      const payloads =
        request.type === RTM_GETLINK && family === 0 ? this.#present.map(encodeLink) : this.#listed(request.type)
      return [...payloads.map((each) => encodeMessage(request.type - 2, 2, request.sequence, each)), done(request)]
    }
    const errno = this.#refusal(request)
    if (errno !== 0) return [acknowledge(request, errno)]
    if (request.type === RTM_GETLINK) {
      const { index } = linkHeader.decode(request.payload.subarray(0, linkHeader.size))
      const { name } = linkAttributes.decode(request.payload.subarray(linkHeader.size))
      const found = this.#present.find((link) => (name === undefined ? link.index === index : link.name === name))
      if (!found) return [acknowledge(request, ENODEV)]
      return [encodeMessage(RTM_NEWLINK, 0, request.sequence, encodeLink(found))]
    }
    // struct rtgenmsg, padded, and NETNSA_NSID
    const known = Uint8Array.of(0, 0, 0, 0, 8, 0, 1, 0, nsid, 0, 0, 0)
    if (request.type === RTM_GETNSID) return [encodeMessage(RTM_NEWNSID, 0, request.sequence, known)]
    // A request of family AF_BRIDGE changes the VLANs of a port.
    if ((request.type === RTM_NEWLINK || request.type === RTM_DELLINK) && family === 0) this.#change(request)
    else this.others.push(request)
    return [acknowledge(request)]
  }

  #listed(type: number): readonly Uint8Array[] {
    const answer = this.#answers[type] ?? []
    return typeof answer === "function" ? answer() : answer
  }

  #change(request: Message): void {
    const { index, flags, change } = linkHeader.decode(request.payload.subarray(0, linkHeader.size))
    const { linkInfo, ...attributes } = linkAttributes.decode(request.payload.subarray(linkHeader.size))
    const isNew = request.type === RTM_NEWLINK && (request.flags & NLM_F_CREATE) !== 0
    const verb = request.type === RTM_DELLINK ? "delete" : isNew ? "add" : "set"
    const kind = linkInfo?.kind as LinkKind | undefined
    const data = kind && linkInfo?.data && linkKinds[kind].decode(linkInfo.data)
    this.links.push({ verb, index, flags, change, ...attributes, ...(kind && { kind }), ...(data && { data }) })
    if (!isNew) return
    const number = 100 + this.#present.length
    const made = { ...attributes, index: number, name: attributes.name ?? "", flags, kind: kind as LinkKind }
    this.#present.push({ ...made, ...(linkInfo?.data && { data: linkInfo.data }) })
    if (kind !== "veth" || !linkInfo?.data) return
    // Each end names the other. Neither reports the data with which it was created.
    const { name = "", ...peer } = linkKinds.veth.decode(linkInfo.data).peer ?? {}
    this.#present.pop()
    this.#present.push(
      { ...made, link: number + 1 },
      { ...(peer as object), index: number + 1, name, kind, link: number },
    )
  }
}

function encodeLink({ index, flags = 0, kind, data, slaveKind, slaveData, ...attributes }: KernelLink): Uint8Array {
  const info = { kind, data, slaveKind, slaveData }
  const hasInfo = kind !== undefined || slaveKind !== undefined
  const header = linkHeader.encode({ family: 0, pad: 0, type: 1, index, flags, change: 0 })
  const encoded = linkAttributes.encode({
    mac: "0a:00:00:00:00:01",
    mtu: 1500,
    ...attributes,
    ...(hasInfo && { linkInfo: info }),
  })
  const payload = new Uint8Array(header.length + encoded.length)
  payload.set(header)
  payload.set(encoded, header.length)
  return payload
}

/** Returns a link in the form in which this package returns links, for functions that need no socket. */
export function linkOf(link: KernelLink): ReturnType<typeof import("../links.ts").getLink> {
  const {
    index,
    name,
    flags = 0,
    kind = "",
    data,
    slaveKind,
    slaveData,
    mac = "0a:00:00:00:00:01",
    mtu = 1500,
    ...rest
  } = link
  const linkInfo = {
    ...(kind && { kind }),
    ...(data && { data }),
    ...(slaveKind && { slaveKind }),
    ...(slaveData && { slaveData }),
  }
  return { index: index as Ifindex, name, flags, type: 1, mac, mtu, kind, attributes: { ...rest, linkInfo } }
}
