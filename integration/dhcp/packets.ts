import type { Namespace } from "../lab/mod.ts"
import { waitFor, waitLimitMs } from "../lab/mod.ts"
import { Running } from "./running.ts"

/** A packet as decoded by tcpdump, a second implementation of these formats. */
export interface Packet {
  /** The source and destination hardware addresses. */
  readonly from: string
  readonly to: string
  /** The source and destination IP addresses. */
  readonly source: string
  readonly destination: string
  /** "Discover", "Request", "Release", … for DHCPv4; "solicit", "renew", … for DHCPv6; "ARP". */
  readonly type: string
  readonly clientIp?: string
  readonly requestedIp?: string
  readonly server?: string
  /** tcpdump's whole description of the packet. */
  readonly text: string
}

/** A record of the DHCP and ARP packets on an interface, as tcpdump decodes them. */
export class Sniffer implements AsyncDisposable {
  readonly #tcpdump: Running

  private constructor(tcpdump: Running) {
    this.#tcpdump = tcpdump
  }

  static async start(where: Namespace, link: string): Promise<Sniffer> {
    const filter = "arp or udp port 67 or udp port 68 or udp port 546 or udp port 547 or (icmp6 and ip6[40] > 132)"
    const options = ["-i", link, "--immediate-mode", "-l", "-nn", "-e", "-v", "-s", "0"]
    return new Sniffer(await Running.start(where, ["tcpdump", ...options, filter], /listening on/))
  }

  /** Returns the packets so far in order, or only those of one type. */
  packets(type?: string): Packet[] {
    const texts = this.#tcpdump.text.split(/^(?=\d\d:\d\d:\d\d\.\d+ )/m).filter((text) => /^\d\d:/.test(text))
    const packets = texts.map(readPacket)
    return type === undefined ? packets : packets.filter((packet) => packet.type === type)
  }

  /** Waits for a packet of this type for which `matches` returns true, and returns it. */
  async waitFor(
    type: string,
    matches: (packet: Packet) => boolean = () => true,
    deadlineMs = waitLimitMs,
  ): Promise<Packet> {
    try {
      return await waitFor(() => this.packets(type).find(matches), `a packet "${type}"`, deadlineMs)
    } catch (error) {
      throw new Error(`packets:\n${this.#tcpdump.text.slice(-6000)}`, { cause: error })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tcpdump[Symbol.asyncDispose]()
  }
}

function readPacket(text: string): Packet {
  const find = (pattern: RegExp) => pattern.exec(text)?.[1]
  const [, from = "", to = ""] = /([0-9a-f:]{17}) > ([0-9a-f:]{17})/.exec(text) ?? []
  const [, source = "", destination = ""] =
    /([0-9.]+)\.\d+ > ([0-9.]+)\.\d+: BOOTP/.exec(text) ?? /([0-9a-f:]+)\.\d+ > ([0-9a-f:]+)\.\d+: /.exec(text) ?? []
  const [clientIp, requestedIp] = [find(/Client-IP (\S+)/), find(/Requested-IP \(50\).*: (\S+)/)]
  const server = find(/Server-ID \(54\).*: (\S+)/)
  return {
    from,
    to,
    source,
    destination,
    type: find(/DHCP-Message \(53\).*: (\S+)/) ?? find(/dhcp6 (\S+)/) ?? find(/ethertype (ARP)/) ?? "",
    ...(clientIp !== undefined && { clientIp }),
    ...(requestedIp !== undefined && { requestedIp }),
    ...(server !== undefined && { server }),
    text,
  }
}
