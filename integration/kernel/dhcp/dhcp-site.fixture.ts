/** Runs the dhcp plugin's leases on a real link, in this process. The test sets the time and acts as the server. */
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

const mac = "0a:58:0a:01:02:03"
const serverMac = "0a:58:0a:01:02:01"

/** The time limit for the kernel and the client, longer on slow machines. */
const patienceMs = scaleTimeout(60_000)
const names: Readonly<Record<string, string>> = { "01": "DISCOVER", "03": "REQUEST", "07": "RELEASE" }
/** The DHCP message types of a server, RFC 2132, 9.6. */
const answers = { OFFER: 2, ACK: 5 } as const

/** A caller that waits for a lease, and collects the answers. */
class Caller {
  readonly answers: (Result | string)[] = []
  answer = (result: Result) => void this.answers.push(result)
  refuse = (reason: string) => void this.answers.push(reason)
}

/** A container with `eth0` down, a DHCP server at its peer on the host, and the leases of a new daemon. */
export class DhcpSite implements Disposable {
  readonly pod: ContainerNamespace
  readonly directory = mkdtempSync(join(tmpdir(), "dhcp-site-"))
  readonly journal = new Journal(join(this.directory, "leases"))
  readonly log: string[] = []
  /** The name of the server's end, on the host. */
  readonly link: string
  readonly #route: RouteSocket
  readonly #server: PacketSocket
  readonly #buffer = new Uint8Array(65_536)
  /** Frames of the client that no test has read yet. */
  #frames: Uint8Array[] = []
  now = 1_000_000
  readonly service: Service

  private constructor({ pod, link, route, socket }: Parts, flags: readonly string[]) {
    this.pod = pod
    this.link = link
    this.#route = route
    this.#server = socket
    this.journal.tryLock()?.[Symbol.dispose]()
    const log = (line: string) => void this.log.push(line)
    const moment = { now: () => this.now, random: () => 0.5, links: kernelLinks(() => this.now) }
    const options = parseOptions(flags)
    this.service = new Service({ options, journal: this.journal, bootId: "this boot", ...moment, log })
    this.service.resume()
  }

  /** Creates a site. `flags` are options of `dhcp daemon`. */
  static async create(host: HostNamespace, { flags = ["-timeout", "4s"] } = {}): Promise<DhcpSite> {
    const pod = await host.addContainer()
    const name = `srv${pod.name.replace(/^cnit-\d+-/, "").slice(0, 8)}`
    const peer = `peer name eth0 address ${mac} netns ${pod.name}`
    await host.exec("ip", ["-batch", "-"], {
      input: `link add ${name} address ${serverMac} type veth ${peer}
        link set ${name} addrgenmode none up\n`,
    })
    await pod.exec("sysctl", ["-qw", "net.ipv6.conf.eth0.accept_dad=0"])
    using namespace = Netns.open(host.path)
    const route = namespace.run(() => RouteSocket.open())
    const socket = namespace.run(
      () => new PacketSocket(getLink(route, name).index, encodeFilter([[0x06, 0, 0, 0x40000]])),
    )
    return new DhcpSite({ pod, link: name, route, socket }, flags)
  }

  call(ipam: object = {}): CallArguments {
    const config = { cniVersion: "1.1.0", name: "net", type: "dhcp", ipam: { type: "dhcp", ...ipam } }
    const stdin = new TextEncoder().encode(JSON.stringify(config))
    return { containerId: "box", netns: this.pod.path, ifName: "eth0", args: "", path: "/opt/cni/bin", stdin }
  }

  allocate(call: CallArguments = this.call()): Caller {
    const caller = new Caller()
    this.service.allocate(call, caller)
    return caller
  }

  /** The holder of the container's lease. Throws if there is no lease. */
  get holder(): Holder {
    const [holder] = this.service.holders.values()
    if (!holder) throw new Error("There is no lease")
    return holder
  }

  get records(): LeaseRecord[] {
    return this.journal.list((line) => this.log.push(line))
  }

  /** Returns the client's next DHCPv4 message. Handles the client's events while it waits. Throws for another type. */
  hear(type: string): Sent {
    const sent = readSent(this.hearFrame(isDhcp4))
    if (names[sent.options[53] ?? ""] !== type) throw new Error(`This is no ${type}: ${JSON.stringify(sent)}`)
    return sent
  }

  /** Returns the client's next frame for which `isWanted` returns true. Keeps other frames for later calls. */
  hearFrame(isWanted: (frame: Uint8Array) => boolean): Uint8Array {
    this.waitUntil("a frame of the client", () => this.has(isWanted))
    const [frame] = this.#frames.splice(this.#frames.findIndex(isWanted), 1)
    return frame ?? new Uint8Array()
  }

  /** Reports whether the client has sent such a frame that no test has read yet. */
  has(isWanted: (frame: Uint8Array) => boolean): boolean {
    for (let frame = this.#receive(); frame; frame = this.#receive()) this.#frames.push(frame)
    return this.#frames.some(isWanted)
  }

  #receive(): Uint8Array | undefined {
    try {
      return this.#server.receive(this.#buffer)?.slice()
    } catch (error) {
      if (isErrno(error, "ENETDOWN")) return undefined // the kernel reports it once
      throw error
    }
  }

  reply(type: keyof typeof answers, { xid }: { xid: number }, address: string): void {
    const given = { 3: "0a010201", 51: "00000e10" }
    this.send(answer4({ ...createClient({ ...config4, mac }), xid }, answers[type], address, given))
  }

  /** Sends frames to the client, and makes a client of this process read them. */
  send(...frames: Uint8Array[]): void {
    const [holder] = this.service.holders.values()
    // The kernel silently drops frames on a link until it has noticed the carrier. Until then it reports a new link as
    // running.
    const isUp = () => getLink(this.#route, this.link).attributes.operState === OperState.Up
    this.waitUntil("the server's carrier", isUp)
    for (const frame of frames) this.#server.send(frame)
    if (!holder) return
    pollAll(holder.link.descriptors.map(toRead), patienceMs)
    holder.onReadable(this.#buffer)
  }

  /** Waits until the client sends a frame or has an event, and lets it handle the event. */
  #wait(ms: number): void {
    const holders = [...this.service.holders.values()]
    const waiting = holders.flatMap((holder) => holder.link.descriptors.map((fd) => ({ fd, holder })))
    const ready = pollAll([this.#server.fd, ...waiting.map(({ fd }) => fd)].map(toRead), ms)
    for (const [at, { holder }] of waiting.entries()) if (ready[at + 1] !== 0) holder.onReadable(this.#buffer)
  }

  /** Handles events until `isSo` returns true. */
  waitUntil(what: string, isSo: () => boolean): void {
    const end = Date.now() + patienceMs
    while (!isSo()) {
      if (Date.now() > end) throw new Error(`Waited in vain for ${what}`)
      this.#wait(100)
    }
  }

  /** Advances the time to the next deadline of the lease. */
  pass(): void {
    const { holder } = this
    this.now = Math.max(this.now, holder.due ?? this.now)
    this.service.onTime(holder)
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

const toRead = (fd: Fd) => ({ fd, events: Poll.In })

/** Reports whether a frame is UDP from port 68 to port 67. */
function isDhcp4(frame: Uint8Array): boolean {
  return frame[12] === 8 && frame[13] === 0 && frame[23] === 17 && frame[35] === 68 && frame[37] === 67
}
