import { engine } from "../../pkg/engine/mod.ts"
import { errnoName, type FileDescriptor, randomBytes, SyscallError, setSocketOption } from "../../pkg/libc/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { AF_INET, familyOf } from "../../pkg/types/mod.ts"
import { reasonOf, socketAddress } from "../trace/mod.ts"
import { type Failure, noAnswer, openSocket, type Patience, repeatedly, tryRead, until } from "./sockets.ts"

/** <sys/socket.h>, <netinet/in.h>, <linux/in6.h> */
const SOCK_RAW = 3
const IPPROTO = { ip: 0, icmp: 1, ipv6: 41, icmpv6: 58 } as const
const IP_MTU_DISCOVER = 10
const IP_RECVERR = 11
const IPV6_MTU_DISCOVER = 23
const IPV6_RECVERR = 25
/** `IP_PMTUDISC_DO`: sets the DF bit, and refuses packets longer than the known path MTU. */
const DO = 2
/** The ICMP types of echo request and echo reply. */
const ECHO = { ipv4: { request: 8, reply: 0 }, ipv6: { request: 128, reply: 129 } } as const
const ICMP_HEADER = 8
/** The packet length in bytes that every network must accept: RFC 791, RFC 8200. */
const LEAST = { ipv4: 576, ipv6: 1280 } as const
/** The number of packets with different lengths sent at once. Their answers must fit into the socket's buffer. */
const STEPS = 12

/** The timeout for each round of a search. */
const SEARCH_MS = 1000

/** A socket that sends echo requests from a namespace to an address, like ping. */
class Pinger implements Disposable {
  readonly family: "ipv4" | "ipv6"
  readonly #socket: FileDescriptor
  readonly #id = randomBytes(2)
  readonly #into = new Uint8Array(65536)

  /** Opens the socket. Throws `SyscallError`, for example if the namespace has no route. */
  constructor(netns: Netns, ip: Uint8Array) {
    const isIpv4 = familyOf(ip) === AF_INET
    this.family = isIpv4 ? "ipv4" : "ipv6"
    this.#socket = openSocket(netns, familyOf(ip), SOCK_RAW, isIpv4 ? IPPROTO.icmp : IPPROTO.icmpv6)
    const [level, discover, errors] = isIpv4
      ? [IPPROTO.ip, IP_MTU_DISCOVER, IP_RECVERR]
      : [IPPROTO.ipv6, IPV6_MTU_DISCOVER, IPV6_RECVERR]
    setSocketOption(this.#socket.fd, level, discover, DO)
    setSocketOption(this.#socket.fd, level, errors, 1)
    const errno = -engine.connect(this.#socket.fd, socketAddress({ ip, port: 0 }))
    if (errno === 0) return
    this[Symbol.dispose]()
    throw new SyscallError("connect", errno)
  }

  /** Sends an echo request of `length` bytes with IP header, and `length` as sequence number. Returns 0 or -errno. */
  send(length: number): number {
    const isIpv4 = this.family === "ipv4"
    const message = new Uint8Array(Math.max(ICMP_HEADER, length - (isIpv4 ? 20 : 40)))
    message[0] = ECHO[this.family].request
    message.set(this.#id, 4)
    message.set([length >> 8, length & 0xff], 6)
    if (isIpv4) message.set(checksumOf(message), 2)
    return Math.min(0, engine.sendto(this.#socket.fd, message, 0))
  }

  /** Returns the length of an answered packet, or a received error. Returns undefined if no answer has arrived. */
  receive(): number | { readonly errno: number } | undefined {
    const count = tryRead(this.#socket.fd, this.#into)
    if (typeof count !== "number") return count
    const start = this.family === "ipv4" ? 4 * ((this.#into[0] ?? 0) & 0xf) : 0 // only IPv4 includes the IP header
    const [type, , , , id0, id1, high = 0, low = 0] = this.#into.subarray(start, count)
    const isOurs = type === ECHO[this.family].reply && id0 === this.#id[0] && id1 === this.#id[1]
    return isOurs ? (high << 8) | low : undefined
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]()
  }
}

/** Returns the checksum of RFC 1071 as two bytes in network byte order. */
function checksumOf(message: Uint8Array): [number, number] {
  let sum = 0
  for (let at = 0; at < message.length; at += 2) sum += ((message[at] ?? 0) << 8) | (message[at + 1] ?? 0)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
  return [(~sum >> 8) & 0xff, ~sum & 0xff]
}

/** Sends echo requests from a namespace until one is answered, like `ping -c 1`. */
export async function ping(netns: Netns, ip: Uint8Array, patience: Patience): Promise<Failure> {
  try {
    using pinger = new Pinger(netns, ip)
    const send = repeatedly(patience, () => pinger.send(84))
    const found = await until(() => {
      const refused = send()
      return refused === undefined ? pinger.receive() : { errno: refused }
    }, patience)
    if (found === undefined) return noAnswer(patience)
    return typeof found === "number" ? undefined : reasonOf(found.errno)
  } catch (error) {
    if (error instanceof SyscallError) return error.message
    throw error
  }
}

export interface PathMtu {
  readonly mtu: number
  /** Whether an ICMP error tells the sender that longer packets do not pass, so that TCP sends shorter segments. */
  readonly isReported: boolean
}

/**
 * Returns the length of the longest packet with the DF bit that is answered, up to `mtu`, like `ping -M do -s`. Returns
 * undefined if none is answered. Sends the longest packet first and alone, because an ICMP error changes the kernel's
 * path MTU. Throws `SyscallError`.
 */
export async function pathMtu(
  netns: Netns,
  ip: Uint8Array,
  mtu: number,
  patience: Patience,
): Promise<PathMtu | undefined> {
  using pinger = new Pinger(netns, ip)
  const send = repeatedly(patience, () => pinger.send(mtu))
  const first = await until(() => {
    const errno = send() ?? errnoOf(pinger.receive())
    return typeof errno === "number" && errnoName(errno) === "EMSGSIZE" ? "told" : errno
  }, patience)
  if (first === "answered") return { mtu, isReported: false }
  // The longest packet was not answered, so only the limit is left to find.
  const shorter = { ...patience, timeoutMs: Math.min(patience.timeoutMs, SEARCH_MS) }
  const longest = await searchMtu(pinger, mtu - 1, shorter)
  return longest === undefined ? undefined : { mtu: longest, isReported: first === "told" }
}

function errnoOf(received: ReturnType<Pinger["receive"]>): number | "answered" | undefined {
  return typeof received === "number" ? "answered" : received?.errno
}

/**
 * Finds the limit: sends packets of several lengths at once, then of lengths between the longest that was answered and
 * the shortest that was not.
 */
async function searchMtu(pinger: Pinger, mtu: number, patience: Patience): Promise<number | undefined> {
  let longest = 0
  let [least, most] = [Math.min(LEAST[pinger.family], mtu), mtu]
  for (;;) {
    const lengths = lengthsBetween(least, most)
    const pending = new Set(lengths.filter((length) => pinger.send(length) === 0))
    await until(() => {
      const found = pinger.receive()
      if (typeof found === "number") {
        longest = Math.max(longest, found)
        for (const length of lengths) if (length <= found) pending.delete(length)
      }
      return pending.size === 0 || undefined
    }, patience)
    if (longest === 0) return undefined
    const next = lengths.find((length) => length > longest)
    if (next === undefined || next === longest + 1) return longest
    ;[least, most] = [longest + 1, next - 1]
  }
}

/** Returns several lengths in a range in order, including both ends. */
function lengthsBetween(least: number, most: number): number[] {
  const step = Math.max(1, Math.ceil((most - least) / (STEPS - 1)))
  const lengths = Array.from({ length: STEPS }, (_, at) => least + at * step).filter((length) => length < most)
  return [...lengths, most]
}
