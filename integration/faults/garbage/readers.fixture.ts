import { advance, createClient } from "../../../ipam/dhcp/protocol/client.ts"
import { encodeUdp } from "../../../ipam/dhcp/protocol/frames.ts"
import type { ClientConfig, ClientState, Step } from "../../../ipam/dhcp/protocol/types.ts"
import { callDaemon, readable } from "../../../ipam/dhcp/rpc/client.ts"
import { decodeReply } from "../../../ipam/dhcp/rpc/messages.ts"
import { RpcSession } from "../../../ipam/dhcp/rpc/serve.ts"
import { parseOwner } from "../../../ipam/host-local/lease-file.ts"
import { parseRecord } from "../../../ipam/host-local/records.ts"
import { tryDecodeConfig } from "../../../meta/flannel/delegate-config.ts"
import { parseSubnetFile } from "../../../meta/flannel/subnet-file.ts"
import { decodeBackup } from "../../../meta/tuning/backup.ts"
import { Bus } from "../../../pkg/dbus/mod.ts"
import { decodeUtf8 } from "../../../pkg/engine/mod.ts"
import { readRing, readSlot } from "../../../pkg/flight/mod.ts"
import { pluginError, readResult, readVersions } from "../../../pkg/invoke/printed.ts"
import { parseSave } from "../../../pkg/iptables/mod.ts"
import {
  AF_INET,
  AF_INET6,
  CniError,
  type Family,
  isCniError,
  parseIp,
  parseJsonObject,
  parseNetworkConfig,
} from "../../../pkg/types/mod.ts"
import { serving } from "./door.fixture.ts"
import { questions, replay } from "./netlink.fixture.ts"

/**
 * A function that reads data of other programs, and the names of the errors that it may throw. Plugins handle these
 * errors.
 */
interface Reader {
  readonly read: (parts: readonly Uint8Array[]) => void
  readonly mayThrow: readonly string[]
}

const one =
  (read: (bytes: Uint8Array) => void) =>
  ([bytes = new Uint8Array()]: readonly Uint8Array[]) =>
    read(bytes)
const text = (read: (text: string) => void) => one((bytes) => read(decodeUtf8(bytes)))

/** Throws an error again if it is not a CNI error or has no message. */
function requireSentence(error: unknown): void {
  if (!isCniError(error) || error.message === "") throw error
}

/** Returns a reader for text. If `read` refuses the text, its error message must match `words`. */
const naming = (words: RegExp, read: (text: string) => void) =>
  text((given) => {
    try {
      read(given)
    } catch (error) {
      requireSentence(error)
      if (!words.test(String(error))) throw new Error(`names none of ${words}: ${error}`)
    }
  })

const call = {
  containerId: "pod",
  netns: "/run/netns/pod",
  ifName: "eth0",
  args: "",
  path: "/opt/cni/bin",
  stdin: new Uint8Array(),
}

const own: Readonly<Record<string, Reader>> = {
  "D-Bus": {
    read: one((bytes) =>
      serving(bytes, () => {
        using bus = Bus.find("/run/dbus/system_bus_socket")
        bus?.hasOwner("org.fedoraproject.FirewallD1")
      }),
    ),
    mayThrow: ["DbusError"],
  },
  "daemon of dhcp": {
    read: one((bytes) =>
      serving(
        bytes,
        () =>
          void readable(() =>
            decodeReply(callDaemon({ socketPath: "/run/cni/dhcp.sock", patienceMs: 1000 }, "Allocate", call)),
          ),
      ),
    ),
    mayThrow: ["DaemonError", "NoDaemonError", "CniError"],
  },
  "caller of the daemon of dhcp": {
    read: (parts) => {
      const session = new RpcSession()
      for (const part of parts) session.receive(part)
    },
    mayThrow: ["GobError"],
  },
  "DHCPv4 server": { read: (payloads) => leaseBy(AF_INET, payloads), mayThrow: [] },
  "DHCPv6 server": { read: (payloads) => leaseBy(AF_INET6, payloads), mayThrow: [] },
  "frames for DHCP": {
    read: (frames) => {
      leaseBy(AF_INET, frames, true)
      leaseBy(AF_INET6, frames, true)
    },
    mayThrow: [],
  },
  "flight recorder": {
    read: one((bytes) => {
      readRing(bytes)
      readSlot(bytes.subarray(1024))
    }),
    mayThrow: [],
  },
  "lease file": { read: text((given) => void parseOwner(given)), mayThrow: [] },
  "index of leases": {
    read: text((given) => given.split("\n").forEach((line) => void parseRecord(line))),
    mayThrow: [],
  },
  "backup of tuning": { read: one((bytes) => void decodeBackup(bytes)), mayThrow: [] },
  "configuration kept by flannel": { read: one((bytes) => void tryDecodeConfig(bytes)), mayThrow: [] },
  "subnet.env": {
    read: naming(/\/run\/flannel\/subnet\.env/, (given) => void parseSubnetFile(given, "/run/flannel/subnet.env")),
    mayThrow: [],
  },
  "rules of iptables-save": { read: text((given) => void parseSave(given, "nat")), mayThrow: [] },
  "result of a delegate": { read: naming(/result/i, (given) => void readResult(given, "1.1.0")), mayThrow: [] },
  "error of a delegate": {
    read: text((stdout) => {
      const error = pluginError({ stdout, stderr: "", cause: "exit status 1" })
      if (!(error instanceof CniError) || error.message === "" || !(error.code >= 0)) throw new Error(String(error))
    }),
    mayThrow: [],
  },
  "versions of a delegate": { read: naming(/VERSION/, (given) => void readVersions(given)), mayThrow: [] },
  configuration: { read: naming(/./, (given) => void parseNetworkConfig(parseJsonObject(given))), mayThrow: [] },
}

/** The readers by the name that cases use. Readers of the kernel's answers have names that begin with "netlink: ". */
export const readers: Readonly<Record<string, Reader>> = {
  ...own,
  ...Object.fromEntries(
    Object.keys(questions).map((name): [string, Reader] => [
      `netlink: ${name}`,
      {
        read: (parts) => replay(name, parts),
        mayThrow: ["NetlinkError"],
      },
    ]),
  ),
}

const mac = "0a:58:0a:01:02:03"
const client: Omit<ClientConfig, "family" | "clientId" | "request"> = {
  mac,
  provide: [],
  broadcast: false,
  probeMs: 0,
  timeoutMs: 4000,
  resendMaxMs: 64_000,
  linkLocal: "fe80::858:aff:fe01:203",
}

/** Returns a frame from the DHCP server of the captured frames, with this payload. */
function framed(family: Family, payload: Uint8Array): Uint8Array {
  const [from = "", to = ""] = family === AF_INET ? ["10.1.2.1", "10.1.2.50"] : ["fe80::1", client.linkLocal]
  const [source = 0, target = 0] = family === AF_INET ? [67, 68] : [547, 546]
  const address = (text: string) => parseIp(text) ?? new Uint8Array()
  return encodeUdp(
    { mac: "0a:58:0a:01:02:01", ip: address(from), port: source },
    { mac, ip: address(to), port: target },
    payload,
  )
}

/**
 * Runs a DHCP client that receives `parts`: answers to its requests, or unchanged frames if `areFrames` is true. The
 * client's clock advances between them.
 */
function leaseBy(family: Family, parts: readonly Uint8Array[], areFrames = false): void {
  const [clientId, request] = family === AF_INET ? ["00626f78", [3, 1]] : ["000100012c", [23, 24, 56, 31]]
  let state: ClientState = createClient({ ...client, family, clientId: String(clientId), request: request as number[] })
  let now = 1_000_000
  const moment = () => ({ now, random: () => 0.5 })
  state = advance(state, { kind: "start" }, moment()).state
  for (const part of parts) {
    const payload = part.slice()
    const [at, digits] = family === AF_INET ? [4, 4] : [1, 3]
    for (let index = 0; !areFrames && index < digits && at + index < payload.length; index++)
      payload[at + index] = (state.xid / 256 ** (digits - 1 - index)) & 0xff
    const step = advance(state, { kind: "frame", frame: areFrames ? payload : framed(family, payload) }, moment())
    requireSound(step)
    state = step.state
    now = Math.max(now + 10, Math.min(state.deadline ?? now, now + 1e12))
    if (now === state.deadline) state = advance(state, { kind: "time" }, moment()).state
  }
}

function requireSound({ state, send, changes }: Step): void {
  if (state.phase === "bound" && !state.lease) throw new Error("bound without a lease")
  if (state.deadline !== undefined && !Number.isFinite(state.deadline))
    throw new Error("a deadline that is not a number")
  for (const { length } of send) if (length > 1514) throw new Error(`a frame of ${length} bytes`)
  for (const { lease } of changes)
    if (!/^[0-9a-f.:]+\/\d+$/.test(lease.address)) throw new Error(`the address ${lease.address}`)
}

/** Runs a reader. Returns the fault, or undefined if the reader succeeds or throws an expected error. */
export function judgeReader(name: string, parts: readonly Uint8Array[], areValid = false): string | undefined {
  const reader = readers[name]
  if (!reader) return `there is no reader of "${name}"`
  try {
    reader.read(parts)
    return undefined
  } catch (error) {
    const isExpected = error instanceof Error && reader.mayThrow.includes(error.name) && error.message !== ""
    if (isExpected && !areValid) return undefined
    return `threw ${error instanceof Error ? `${error}\n${error.stack}` : String(error)}`
  }
}
