import { encodeUtf8 } from "../../pkg/engine/mod.ts"
import { randomBytes, readTextFile } from "../../pkg/libc/mod.ts"
import type { Netns } from "../../pkg/netns/mod.ts"
import { parseIp } from "../../pkg/types/mod.ts"
import { askUdp, type Failure, type Patience } from "./sockets.ts"

/** RFC 1035: types A and NS, class IN, flags for "recursion desired" and "response", and the port. */
const [TYPE_A, TYPE_NS, CLASS_IN] = [1, 2, 1]
const RECURSION = 1
const RESPONSE = 0x80
const PORT = 53
const CODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"]

/** Returns a query for the addresses of a name, or for the root's name servers if the name is ".". */
export function dnsQuestion(id: Uint8Array, name: string): Uint8Array {
  const labels = name.split(".").filter((label) => label !== "")
  const encoded = labels.flatMap((label) => [label.length, ...encodeUtf8(label)])
  const type = labels.length === 0 ? TYPE_NS : TYPE_A
  return Uint8Array.of(...id, RECURSION, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...encoded, 0, 0, type, 0, CLASS_IN)
}

/** Queries a name server from a namespace over UDP. For the root, any answer is a success. Other names must exist. */
export async function askServer(netns: Netns, ip: Uint8Array, name: string, patience: Patience): Promise<Failure> {
  const id = randomBytes(2)
  const read = (answer: Uint8Array) => {
    const isOurs = answer.length >= 12 && answer[0] === id[0] && answer[1] === id[1]
    return isOurs && ((answer[2] ?? 0) & RESPONSE) !== 0 ? { code: (answer[3] ?? 0) & 0xf } : undefined
  }
  const answer = await askUdp(netns, { ip, port: PORT }, { question: dnsQuestion(id, name), read }, patience)
  if (typeof answer === "string") return answer
  return name === "." || answer.code === 0
    ? undefined
    : `the server answers ${CODES[answer.code] ?? answer.code} for ${name}`
}

/** Returns the name servers of the host's resolv.conf that containers can reach: those without a loopback address. */
export function hostServers(text = readResolvConf()): Uint8Array[] {
  const named = [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)].flatMap(([, server = ""]) => parseIp(server) ?? [])
  return named.filter((ip) => (ip.length === 4 ? ip[0] !== 127 : ip.slice(0, 15).some((byte) => byte !== 0)))
}

function readResolvConf(): string {
  try {
    return readTextFile("/etc/resolv.conf")
  } catch {
    return ""
  }
}
