import { Netns } from "../../pkg/netns/mod.ts"
import { familyOf, parseIp } from "../../pkg/types/mod.ts"
import {
  type Arguments,
  type Command,
  FOUND_FAULTS,
  Found,
  given,
  nodeFlags,
  placesOf,
  print,
  text,
  UsageError,
  word,
} from "../command.ts"
import { containerHelp, findAttachment, selectionOf } from "../containers.ts"
import type { Terminal } from "../environment.ts"
import { networksOf, requireNetwork } from "../known-networks.ts"
import { attachmentsOf, type Node, type NodeAttachment, readInsides, readNode, readPacketFilter } from "../node/mod.ts"
import {
  type Destination,
  type Hop,
  type Inbound,
  type NodeState,
  walk,
  walkFromHost,
  walkInbound,
} from "../packets/mod.ts"
import { hanging, type ScreenSize, type Tone, tinted } from "../screen.ts"
import { type Probed, probe } from "./probe.ts"

export const trace: Command = {
  summary: "Show the path of a packet from a container, or from outside, and where it ends",
  words: ["[NETWORK]", "[CONTAINER]"],
  needsRoot: true,
  flags: {
    to: { type: "string", value: "ADDRESS[:PORT]", help: "destination; an IPv6 address with a port needs brackets" },
    udp: { type: "boolean", help: "UDP instead of TCP" },
    ifname: { type: "string", short: "i", value: "NAME", help: "interface inside the namespace (default eth0)" },
    probe: { type: "boolean", help: "verify: open a TCP connection from the container or the host, and close it" },
    from: {
      type: "string",
      value: "ADDRESS",
      help: "start at this address outside, or at the host itself (--from host), instead of at a container",
    },
    "to-port": {
      type: "string",
      value: "PORT",
      help: "with --from: to this port of the host, at the source address of the route to --from",
    },
    in: {
      type: "string",
      value: "NAME",
      help: "with --from: the receiving interface (default: the interface of the route to --from)",
    },
    ...nodeFlags,
  },
  help: `${containerHelp}

Follows the first packet of a connection. It asks the kernel for routes, in the container and on the host, and evaluates the rules of the
packet filter in their order: published ports, services, masquerade and the conntrack table. A random choice, such as
between the endpoints of a service, is followed to each result. A rule with an unknown condition (limits, the source port)
is shown as one that may match. Nothing is changed; only --probe sends packets.

With --from it follows a packet from outside to the host or to a published port: the receiving interface, the container, whether
a process listens there, and the path of the answer. With "--from host" it follows a packet of the host itself, such as a probe of kubelet.

A line that begins with "not judged" names a step that cannot be evaluated: the verdict is then "unknown". With --probe
the verdict is that of the probe.

Exit code 0: the packet arrives, or may arrive. 3: the packet is lost on a path, or the probe got no answer.

Examples:
  cni trace pods demo --to 192.0.2.7:443
  cni trace pods shop/web-0 --to 10.85.0.1:8080 --probe
  cni trace pods demo --to '[2001:db8::7]:53' --udp
  cni trace --from 198.51.100.7 --to-port 8080
  cni trace --from host --to 10.85.0.2:8080
  cni trace --from 198.51.100.7 --to 192.0.2.2:8080 --in eth1`,
  async run(args, terminal) {
    const from = text(args, "from")
    const trace = from === undefined ? fromContainer : from === "host" ? fromHost : fromOutside
    const { hops, probed } = trace(args, terminal)
    const verdict = verdictOf(hops, probed)
    print(args, terminal, {
      json: () => ({ verdict, hops, ...(probed ? { probe: probed } : {}) }),
      text: (screen) => report(hops, probed, screen),
    })
    if (verdict === "lost") throw new Found(FOUND_FAULTS)
  },
}

interface Traced {
  readonly hops: readonly Hop[]
  readonly probed?: Probed | undefined
}

function fromContainer(args: Arguments, terminal: Terminal): Traced {
  if (args.words.length < 2) throw new UsageError("name the sender: NETWORK and CONTAINER, or --from ADDRESS")
  if (args.flags["to-port"] !== undefined || args.flags.in !== undefined)
    throw new UsageError("--to-port and --in need --from ADDRESS")
  const to = text(args, "to")
  if (to === undefined) throw new UsageError("name the destination: --to ADDRESS[:PORT]")
  const destination = parseDestination(to, given(args, "udp"))
  const isProbed = given(args, "probe")
  if (isProbed) checkProbed(destination)
  const node = readNode(placesOf(args, terminal))
  const attachments = attachmentsOf(node)
  const [network, name] = [word(args, 0), word(args, 1)]
  requireNetwork(network, networksOf(node, attachments, network))
  const attachment = findAttachment(name, selectionOf(network, args, terminal), attachments)
  if (attachment.netns === undefined)
    throw new Error(`Cannot trace from "${name}": its network namespace is not recorded`)
  using sandbox = Netns.open(attachment.netns)
  const { hops } = walk({ ...stateOf(node), attachments, attachment }, sandbox, destination)
  return { hops, probed: isProbed ? probe(sandbox, destination) : undefined }
}

function fromOutside(args: Arguments, terminal: Terminal): Traced {
  const inbound = parseInbound(args)
  const node = readNode(placesOf(args, terminal))
  return walkInbound({ ...stateOf(node), isWhole: true }, inbound)
}

function fromHost(args: Arguments, terminal: Terminal): Traced {
  const to = text(args, "to")
  if (args.words.length > 0 || to === undefined || args.flags["to-port"] !== undefined || args.flags.in !== undefined)
    throw new UsageError("--from host needs --to ADDRESS[:PORT], and no NETWORK, CONTAINER, --to-port or --in")
  const destination = parseDestination(to, given(args, "udp"))
  const isProbed = given(args, "probe")
  if (isProbed) checkProbed(destination)
  const { hops } = walkFromHost({ ...stateOf(readNode(placesOf(args, terminal))), isWhole: true }, destination)
  using own = isProbed ? Netns.own() : undefined
  return { hops, probed: own && probe(own, destination) }
}

function checkProbed({ protocol, port }: Destination): void {
  if (protocol !== "tcp" || port === 0) throw new UsageError("--probe needs a TCP port: --to ADDRESS:PORT")
}

function stateOf(node: Node): NodeState {
  const insideOf = (one: NodeAttachment) =>
    one.netns === undefined ? undefined : readInsides([one], () => []).get(one.netns)
  return { node, attachments: attachmentsOf(node), filter: readPacketFilter(), insideOf }
}

/** Parses `--from ADDRESS` with `--to ADDRESS[:PORT]` or `--to-port PORT`. Throws a usage error. */
function parseInbound(args: Arguments): Inbound {
  const [from = "", to, port] = [text(args, "from"), text(args, "to"), text(args, "to-port")]
  if (args.words.length > 0 || given(args, "probe") || args.flags.ifname !== undefined)
    throw new UsageError(
      "cannot use --from ADDRESS with NETWORK, CONTAINER, --ifname or --probe: these are for packets of a container",
    )
  const source = parseIp(from)
  if (!source) throw new UsageError(`cannot use --from ${from}: expected an address`)
  if ((to === undefined) === (port === undefined))
    throw new UsageError("name the destination: --to-port PORT or --to ADDRESS[:PORT]")
  const input = text(args, "in")
  if (to !== undefined) {
    const destination = parseDestination(to, given(args, "udp"))
    if (familyOf(destination.ip) === familyOf(source)) return { source, destination, input }
    throw new UsageError(`--from ${from} and --to ${to} are of different families`)
  }
  const number = /^\d+$/.test(port ?? "") ? Number(port) : 0
  if (number < 1 || number > 65535) throw new UsageError(`cannot use --to-port ${port}: expected 1 to 65535`)
  return { source, destination: { port: number, protocol: given(args, "udp") ? "udp" : "tcp" }, input }
}

type Verdict = "arrives" | "lost" | "unknown"

/** Returns whether the packet arrives. For a refused probe, the hops show whether a rule or the receiver refused it. */
function verdictOf(hops: readonly Hop[], probed: Probed | undefined): Verdict {
  const ends = hops.filter(({ where }) => where === "end")
  if (probed?.outcome === "refused") return ends.every(({ passes }) => passes === "no") ? "lost" : "arrives"
  if (probed) return probed.outcome === "connected" ? "arrives" : "lost"
  if (ends.some(({ passes }) => passes === "no")) return "lost"
  return hops.some(({ passes }) => passes === "perhaps") ? "unknown" : "arrives"
}

/** Parses "192.0.2.7:443", "192.0.2.7", "[2001:db8::7]:53", or "2001:db8::7". Throws a usage error. */
export function parseDestination(text: string, isUdp: boolean, flag = "--to"): Destination {
  const [, bracketed, bare, port] = /^(?:\[([^\]]+)\]|([^:]+|[^[\]]*:[^[\]]*:[^[\]]*?))(?::(\d+))?$/.exec(text) ?? []
  const whole = parseIp(text)
  const ip = whole ?? parseIp(bracketed ?? bare ?? "")
  const number = whole || port === undefined ? 0 : Number(port)
  if (!ip || number > 65535)
    throw new UsageError(`cannot use ${flag} ${text}: expected ADDRESS[:PORT], like 192.0.2.7:443 or [2001:db8::7]:443`)
  return { ip, port: number, protocol: isUdp ? "udp" : number === 0 ? "icmp" : "tcp" }
}

const signs = { yes: ["ok", "good"], no: ["STOP", "bad"], perhaps: ["?", "warning"] } as const satisfies Record<
  Hop["passes"],
  readonly [string, Tone]
>

function report(hops: readonly Hop[], probed: Probed | undefined, screen: ScreenSize): string {
  const ways = Math.max(...hops.map(({ way = 0 }) => way))
  const lines = hops.map(({ where, what, passes, way, isAnswer }, at) => {
    const [sign, tone] = signs[passes]
    const title = way === undefined || way === hops[at - 1]?.way ? "" : `\nrandom path ${way} of ${ways}:\n`
    const turn = isAnswer && !hops[at - 1]?.isAnswer ? "\nthe answer:\n" : ""
    return `${title}${turn}${tinted(sign.padEnd(6), tone, screen)}${where.padEnd(12)}${hanging(what, screen, 18)}`
  })
  if (!probed) return lines.join("")
  const isLost = probed.outcome === "no answer" || probed.outcome === "unreachable"
  const reason = probed.reason === undefined ? "" : `: ${probed.reason}`
  const said = `probe: ${probed.outcome} after ${probed.ms.toFixed(1)} ms${reason}`
  const read = verdictOf(hops, undefined)
  const isOther = read !== "unknown" && read !== verdictOf(hops, probed)
  const contradiction = isOther ? "the probe contradicts the rules that were read: the verdict follows the probe\n" : ""
  return `${lines.join("")}\n${tinted(said, isLost ? "bad" : "good", screen)}\n${contradiction}`
}
