/** The leases of dhcp on a link of the kernel, in this process: the test sets the time, and is the server. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  answer4,
  type CallArguments,
  config4,
  createClient,
  type Holder,
  Journal,
  kernelLinks,
  type LeaseRecord,
  parseOptions,
  readSent,
  type Sent,
  Service,
} from "../../../ipam/dhcp/testing/mod.ts"
import { encodeFilter, type Fd, isErrno, PacketSocket, Poll, pollAll } from "../../../pkg/libc/mod.ts"
import { getLink, OperState, RouteSocket } from "../../../pkg/netlink/mod.ts"
import { Netns } from "../../../pkg/netns/mod.ts"
import type { Result } from "../../../pkg/types/mod.ts"
import { type ContainerNamespace, type HostNamespace, scaleTimeout } from "../../lab/mod.ts"

export const mac = "0a:58:0a:01:02:03"
export const serverMac = "0a:58:0a:01:02:01"

/** A time limit for work of the kernel and the client; a busy machine needs longer. */
const patienceMs = scaleTimeout(60_000)
const names: Readonly<Record<string, string>> = {
  "01": "DISCOVER",
  "03": "REQUEST",
  "04": "DECLINE",
  "07": "RELEASE",
}
/** Types of a server's answers, RFC 2132, 9.6. */
export const answers = { OFFER: 2, ACK: 5, NAK: 6 } as const

/** The answer to a waiting caller. */
export class Caller {
  readonly answers: (Result | string)[] = []
  answer = (result: Result) => void this.answers.push(result)
  refuse = (reason: string) => void this.answers.push(reason)
}

/**
 * A container with `eth0`, which is down, the server at its other end, and the leases of a daemon that has just
 * started.
 */
export class DhcpSite implements Disposable {
  readonly pod: ContainerNamespace
  readonly directory = mkdtempSync(join(tmpdir(), "dhcp-site-"))
  readonly journal = new Journal(join(this.directory, "leases"))
  readonly log: string[] = []
  readonly #flags: readonly string[]
  /** The server's end, on the host. */
  readonly link: string
  readonly #route: RouteSocket
  readonly #server: PacketSocket
  readonly #buffer = new Uint8Array(65_536)
  /** Frames of the client that no test has asked for yet. */
  #frames: Uint8Array[] = []
  now = 1_000_000
  service: Service

  private constructor({ pod, link, route, socket }: Parts, flags: readonly string[]) {
    this.pod = pod
    this.link = link
    this.#route = route
    this.#server = socket
    this.#flags = flags
    this.journal.tryLock()?.[Symbol.dispose]()
    this.service = this.restart()
  }

  /** `flags` are those of `dhcp daemon`. */
  static async create(host: HostNamespace, { flags = ["-timeout", "4s"], carrier = true } = {}): Promise<DhcpSite> {
    const pod = await host.addContainer()
    const name = `srv${pod.name.replace(/^cnit-\d+-/, "").slice(0, 8)}`
    const peer = `peer name eth0 address ${mac} netns ${pod.name}`
    await host.exec("ip", ["-batch", "-"], {
      input: `link add ${name} address ${serverMac} type veth ${peer}
        link set ${name} addrgenmode none ${carrier ? "up" : ""}\n`,
    })
    await pod.exec("sysctl", ["-qw", "net.ipv6.conf.eth0.accept_dad=0"])
    using namespace = Netns.open(host.path)
    const route = namespace.run(() => RouteSocket.open())
    const socket = namespace.run(
      () => new PacketSocket(getLink(route, name).index, encodeFilter([[0x06, 0, 0, 0x40000]])),
    )
    return new DhcpSite({ pod, link: name, route, socket }, flags)
  }

  /** Starts another daemon that resumes the leases in the journal. */
  restart(bootId = "this boot"): Service {
    const log = (line: string) => void this.log.push(line)
    const moment = { now: () => this.now, random: () => 0.5, links: kernelLinks(() => this.now) }
    this.service = new Service({ options: parseOptions(this.#flags), journal: this.journal, bootId, ...moment, log })
    this.service.resume()
    return this.service
  }

  /** A call for the container, with these keys in `ipam` and in the configuration. */
  call(ipam: object = {}, { containerId = "box", netns = this.pod.path, ifName = "eth0", ...more }: Particulars = {}) {
    const config = { cniVersion: "1.1.0", name: "net", type: "dhcp", ipam: { type: "dhcp", ...ipam }, ...more }
    const stdin = new TextEncoder().encode(JSON.stringify(config))
    return { containerId, netns, ifName, args: "", path: "/opt/cni/bin", stdin } satisfies CallArguments
  }

  /** Begins an ADD. */
  allocate(call: CallArguments = this.call()): Caller {
    const caller = new Caller()
    this.service.allocate(call, caller)
    return caller
  }

  /** An ADD that is answered with this address. */
  lease(ipam: object = {}, options: Record<number, string> = {}, address = "10.1.2.3"): Caller {
    const caller = this.allocate(this.call(ipam))
    this.reply("OFFER", this.hear("DISCOVER"), address, options)
    this.reply("ACK", this.hear("REQUEST"), address, options)
    return caller
  }

  /** The lease of the container. */
  get holder(): Holder {
    const [holder] = this.service.holders.values()
    if (!holder) throw new Error("There is no lease")
    return holder
  }

  get records(): LeaseRecord[] {
    return this.journal.list((line) => this.log.push(line))
  }

  /**
   * Returns the client's next DHCPv4 packet, which has to be of this type. Also handles the client's other events.
   */
  hear(type: string): Sent {
    const sent = this.hearAny()
    if (names[sent.options[53] ?? ""] !== type) throw new Error(`This is no ${type}: ${JSON.stringify(sent)}`)
    return sent
  }

  hearAny(): Sent {
    return readSent(this.hearFrame((frame) => isDhcp4(frame)))
  }

  /** The next frame of the client that is wanted; the others stay to be heard. */
  hearFrame(isWanted: (frame: Uint8Array) => boolean): Uint8Array {
    this.waitUntil("a frame of the client", () => this.has(isWanted))
    const [frame] = this.#frames.splice(this.#frames.findIndex(isWanted), 1)
    return frame ?? new Uint8Array()
  }

  /** Whether the client has sent a packet of DHCPv4 that was not heard yet. */
  get hasMore(): boolean {
    return this.has(isDhcp4)
  }

  /** Whether the client has sent such a frame that was not heard yet. */
  has(isWanted: (frame: Uint8Array) => boolean): boolean {
    for (let frame = this.#receive(); frame; frame = this.#receive()) this.#frames.push(frame)
    return this.#frames.some(isWanted)
  }

  #receive(): Uint8Array | undefined {
    try {
      return this.#server.receive(this.#buffer)?.slice()
    } catch (error) {
      if (isErrno(error, "ENETDOWN")) return undefined // said once
      throw error
    }
  }

  /** A server's answer to a client's packet. */
  answer(type: keyof typeof answers, { xid }: { xid: number }, address: string, options: Record<number, string> = {}) {
    const given = { 3: "0a010201", 51: "00000e10", ...options }
    return answer4({ ...createClient({ ...config4, mac }), xid }, answers[type], address, given)
  }

  /** Answers a client's packet, and has the client read that. */
  reply(type: keyof typeof answers, sent: { xid: number }, address: string, options: Record<number, string> = {}) {
    this.send(this.answer(type, sent, address, options))
  }

  /** Sends frames to the client, which reads them if it runs in this process. */
  send(...frames: Uint8Array[]): void {
    const [holder] = this.service.holders.values()
    // The kernel silently drops packets that are sent before it notices the carrier. Until then a new link counts as
    // running.
    const isUp = () => getLink(this.#route, this.link).attributes.operState === OperState.Up
    this.waitUntil("the server's carrier", isUp)
    for (const frame of frames) this.#server.send(frame)
    if (!holder) return
    pollAll(holder.link.descriptors.map(toRead), patienceMs)
    holder.onReadable(this.#buffer)
  }

  /** Waits for a frame of the client, or for an event that the client waits for, and lets it handle the event. */
  #wait(ms: number): void {
    const holders = [...this.service.holders.values()]
    const waiting = holders.flatMap((holder) => holder.link.descriptors.map((fd) => ({ fd, holder })))
    const ready = pollAll([this.#server.fd, ...waiting.map(({ fd }) => fd)].map(toRead), ms)
    for (const [at, { holder }] of waiting.entries()) if (ready[at + 1] !== 0) holder.onReadable(this.#buffer)
  }

  /** Waits for the kernel's events to the client, until one has an effect. */
  waitUntil(what: string, isSo: () => boolean): void {
    const end = Date.now() + patienceMs
    while (!isSo()) {
      if (Date.now() > end) throw new Error(`Waited in vain for ${what}`)
      this.#wait(100)
    }
  }

  /** Advances the time to the next deadline of the lease, at most to `until`; returns the elapsed time. */
  pass(until = Number.POSITIVE_INFINITY): number {
    const before = this.now
    const { holder } = this
    this.now = Math.max(before, Math.min(holder.due ?? until, until))
    this.service.onTime(holder)
    return this.now - before
  }

  [Symbol.dispose](): void {
    for (const holder of this.service.holders.values()) holder.close("the test is over")
    this.#server[Symbol.dispose]()
    this.#route[Symbol.dispose]()
    rmSync(this.directory, { recursive: true })
  }
}

interface Parts extends Pick<DhcpSite, "pod" | "link"> {
  readonly route: RouteSocket
  readonly socket: PacketSocket
}

interface Particulars {
  readonly containerId?: string
  readonly netns?: string
  readonly ifName?: string
  readonly [key: string]: unknown
}

const toRead = (fd: Fd) => ({ fd, events: Poll.In })

/** UDP from port 68 to 67. */
function isDhcp4(frame: Uint8Array): boolean {
  return frame[12] === 8 && frame[13] === 0 && frame[23] === 17 && frame[35] === 68 && frame[37] === 67
}
