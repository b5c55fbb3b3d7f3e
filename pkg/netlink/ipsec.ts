import { isErrno } from "../libc/mod.ts"
import { AF_INET, AF_INET6, type Cidr, type Family } from "../types/mod.ts"
import { readAttributes } from "./attrs.ts"
import { DecodeError } from "./codec.ts"
import { struct, u8, u16, u16be, u32 } from "./integers.ts"
import { NetlinkSocket } from "./socket.ts"

/** <linux/netlink.h>, <linux/xfrm.h> */
const NETLINK_XFRM = 6
const [XFRM_MSG_GETSA, XFRM_MSG_GETPOLICY, XFRM_MSG_GETDEFAULT] = [0x12, 0x15, 0x28]
const [XFRMA_TMPL, XFRMA_MARK, XFRMA_IF_ID] = [5, 21, 31]
const XFRM_POLICY_BLOCK = 1
const XFRM_USERPOLICY_BLOCK = 1

/** The names of `XFRM_POLICY_IN`, `_OUT` and `_FWD`, in order. Greater numbers, of single sockets, are left out. */
const directions = ["in", "out", "fwd"] as const

const families: readonly Family[] = [AF_INET, AF_INET6]

/** The direction of a policy, as `ip xfrm policy` calls it. */
export type IpsecDirection = (typeof directions)[number]

/** struct xfrm_userpolicy_info: a selector, which begins with the two addresses, lifetimes, and further fields. */
const ADDRESS = 16
const selectorRest = struct({
  dport: u16be,
  dportMask: u16be,
  sport: u16be,
  sportMask: u16be,
  family: u16,
  prefixDst: u8,
  prefixSrc: u8,
  protocol: u8,
  pad1: u8,
  pad2: u16,
  ifindex: u32,
  user: u32,
})
const LIFETIMES = 56
const policyRest = struct({ priority: u32, index: u32, direction: u8, action: u8, flags: u8, share: u8 })
const POLICY_REST = 152
const POLICY_SIZE = 168

/** struct xfrm_user_tmpl: struct xfrm_id with the destination, the family, the source, and further fields. */
const TEMPLATE_SIZE = 64
const templateRest = struct({ reqid: u32, mode: u8, share: u8, optional: u8, pad: u8 })
const [TEMPLATE_PROTOCOL, TEMPLATE_REST] = [20, 44]

/** struct xfrm_usersa_info: a selector, struct xfrm_id, the source, lifetimes, statistics, and further fields. */
const [STATE_DST, STATE_PROTOCOL, STATE_REQID] = [56, 76, 208]
const stateRest = struct({ reqid: u32, family: u16, mode: u8 })

/** The IPsec protection that a policy requires of a packet. A packet without it is accepted if `isOptional`. */
export interface IpsecTemplate {
  readonly dst: Uint8Array
  /** IPPROTO_ESP, IPPROTO_AH, … */
  readonly protocol: number
  readonly reqid: number
  readonly isTunnel: boolean
  readonly isOptional: boolean
}

/** An IPsec policy of a network namespace. */
export interface IpsecPolicy {
  readonly family: Family
  readonly direction: IpsecDirection
  readonly src: Cidr
  readonly dst: Cidr
  /** A policy with a lower number has precedence. */
  readonly priority: number
  readonly index: number
  readonly isBlocking: boolean
  readonly templates: readonly IpsecTemplate[]
  /** The policy applies only to packets with a certain protocol, port, interface or mark. */
  readonly isNarrow: boolean
}

/** A security association, which gives packets the protection of a template. */
export type IpsecState = Omit<IpsecTemplate, "isOptional">

/** The IPsec configuration of a namespace. */
export interface Ipsec {
  /** The policies in the order in which the kernel evaluates them. */
  readonly policies: readonly IpsecPolicy[]
  readonly states: readonly IpsecState[]
  /** The directions in which the kernel drops packets that match no policy. */
  readonly blockedByDefault: readonly IpsecDirection[]
}

const none: Ipsec = { policies: [], states: [], blockedByDefault: [] }

/**
 * Returns the policies and states of the thread's namespace, like `ip xfrm policy` and `ip xfrm state`. Returns empty
 * lists on a kernel without IPsec. Throws `NetlinkError`.
 */
export function readIpsec(): Ipsec {
  try {
    using socket = new NetlinkSocket(NETLINK_XFRM)
    return listIpsec(socket)
  } catch (error) {
    if (isErrno(error, "EPROTONOSUPPORT", "EAFNOSUPPORT", "EOPNOTSUPP")) return none
    throw error
  }
}

/** Like `readIpsec`, on an open socket. */
export function listIpsec(socket: Pick<NetlinkSocket, "dump" | "get">): Ipsec {
  const payload = new Uint8Array(0)
  const policies = socket.dump({ type: XFRM_MSG_GETPOLICY, what: "list IPsec policies", payload }, (answer) =>
    readPolicy(answer.payload),
  )
  const blockedByDefault = readDefaults(socket)
  // There may be thousands of states. They are read only if a policy has a template, because otherwise no packet needs
  // a state.
  const hasTemplates = policies.some(({ templates }) => templates.length > 0)
  const request = { type: XFRM_MSG_GETSA, what: "list IPsec states", payload }
  const states = hasTemplates ? socket.dump(request, (answer) => readState(answer.payload)) : []
  return { policies: policies.sort((a, b) => a.priority - b.priority), states, blockedByDefault }
}

/** Returns the directions blocked by struct xfrm_userpolicy_default (in, fwd, out); none on kernels before 5.14. */
function readDefaults(socket: Pick<NetlinkSocket, "get">): IpsecDirection[] {
  const request = { type: XFRM_MSG_GETDEFAULT, what: "find the default IPsec policy", payload: new Uint8Array(3) }
  try {
    return socket.get(request, ({ payload }) =>
      (["in", "fwd", "out"] as const).filter((_, at) => payload[at] === XFRM_USERPOLICY_BLOCK),
    )
  } catch (error) {
    if (isErrno(error, "EINVAL", "EOPNOTSUPP")) return []
    throw error
  }
}

function readPolicy(payload: Uint8Array): IpsecPolicy | undefined {
  if (payload.length < POLICY_SIZE) throw new DecodeError(`${payload.length} bytes of a policy`)
  const selector = selectorRest.decode(payload.subarray(2 * ADDRESS, LIFETIMES))
  const {
    priority,
    index,
    direction: number,
    action,
  } = policyRest.decode(payload.subarray(POLICY_REST, POLICY_REST + policyRest.size))
  const direction = directions[number]
  const family = families.find((each) => each === selector.family)
  if (direction === undefined || family === undefined) return undefined
  const attributes = readAttributes(payload.subarray(POLICY_SIZE))
  const templates = attributes.find(({ type }) => type === XFRMA_TMPL)?.payload ?? new Uint8Array(0)
  const { protocol, dportMask, sportMask, ifindex, prefixDst, prefixSrc } = selector
  return {
    family,
    direction,
    dst: { ip: addressAt(payload, 0, family), prefix: prefixDst },
    src: { ip: addressAt(payload, ADDRESS, family), prefix: prefixSrc },
    priority,
    index,
    isBlocking: action === XFRM_POLICY_BLOCK,
    templates: readTemplates(templates),
    isNarrow:
      protocol !== 0 ||
      dportMask !== 0 ||
      sportMask !== 0 ||
      ifindex !== 0 ||
      attributes.some(({ type }) => type === XFRMA_MARK || type === XFRMA_IF_ID),
  }
}

function readTemplates(bytes: Uint8Array): IpsecTemplate[] {
  const count = Math.floor(bytes.length / TEMPLATE_SIZE)
  return Array.from({ length: count }, (_, at) => {
    const one = bytes.subarray(at * TEMPLATE_SIZE, (at + 1) * TEMPLATE_SIZE)
    const { reqid, mode, optional } = templateRest.decode(
      one.subarray(TEMPLATE_REST, TEMPLATE_REST + templateRest.size),
    )
    const family = one[24] === AF_INET6 ? AF_INET6 : AF_INET
    return {
      dst: addressAt(one, 0, family),
      protocol: one[TEMPLATE_PROTOCOL] ?? 0,
      reqid,
      isTunnel: mode === 1,
      isOptional: optional !== 0,
    }
  })
}

function readState(payload: Uint8Array): IpsecState | undefined {
  if (payload.length < STATE_REQID + stateRest.size) return undefined
  const { reqid, family, mode } = stateRest.decode(payload.subarray(STATE_REQID, STATE_REQID + stateRest.size))
  const known = family === AF_INET6 ? AF_INET6 : AF_INET
  const dst = addressAt(payload, STATE_DST, known)
  return { dst, protocol: payload[STATE_PROTOCOL] ?? 0, reqid, isTunnel: mode === 1 }
}

/** Returns the address in an xfrm_address_t, which has room for an address of either family. */
function addressAt(bytes: Uint8Array, at: number, family: Family): Uint8Array {
  return bytes.slice(at, at + (family === AF_INET ? 4 : 16))
}
