import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { isErrno, readFile } from "../../pkg/libc/mod.ts"
import { type Cidr, CniError, Code, formatCidr, networkOf, parseCidr } from "../../pkg/types/mod.ts"

/** The content of flanneld's file. Networks and subnets are text without host bits, IPv4 before IPv6. */
export interface NodeSubnets {
  /** The networks that contain the subnets of all nodes. */
  networks: string[]
  /** The subnets of this node, at most one per family. */
  subnets: string[]
  mtu: number
  /** Whether flanneld masquerades. If so, the delegate must not masquerade. */
  ipMasq: boolean
}

const networkKeys = ["FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK"] as const
const subnetKeys = ["FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET"] as const
const MTU = "FLANNEL_MTU"
const IPMASQ = "FLANNEL_IPMASQ"
const knownKeys: readonly string[] = [...networkKeys, ...subnetKeys, MTU, IPMASQ]

const WHERE_TO_LOOK = "read the log of this node's flannel pod"

/** Reads flanneld's file. Throws code 11 if it does not exist yet, and code 999 with the key if it is invalid. */
export function readSubnetFile(path: string): NodeSubnets {
  return parseSubnetFile(decodeUtf8(readBytes(path)), path)
}

function readBytes(path: string): Uint8Array {
  try {
    return readFile(path, 1 << 16)
  } catch (cause) {
    if (isErrno(cause, "EISDIR"))
      throw new CniError(Code.Internal, `Cannot read the subnet file "${path}": it is a directory`)
    if (!isErrno(cause, "ENOENT")) throw new CniError(Code.Internal, `Cannot read the subnet file "${path}"`, { cause })
    throw new CniError(Code.TryAgainLater, `Cannot read the subnet file "${path}": flanneld has not written it`, {
      details: WHERE_TO_LOOK,
    })
  }
}

/** Parses lines of KEY=VALUE. Unknown keys are ignored. Throws code 999 that names the missing or invalid keys. */
export function parseSubnetFile(text: string, path: string): NodeSubnets {
  const values = new Map<string, string>()
  for (const line of text.split("\n")) {
    const [key = "", ...rest] = line.trim().split("=")
    if (!knownKeys.includes(key)) continue
    if (rest.length === 0) throw wrong(path, key, "KEY=VALUE", line)
    values.set(key, rest.join("="))
  }
  const missing = [networkKeys, subnetKeys, [MTU], [IPMASQ]].flatMap((keys: readonly string[]) =>
    keys.some((key) => values.has(key)) ? [] : keys,
  )
  if (missing.length > 0) {
    const details = `it needs a network, a subnet, and all other keys; ${WHERE_TO_LOOK}`
    throw new CniError(Code.Internal, `Cannot use the subnet file "${path}": it is missing ${missing.join(", ")}`, {
      details,
    })
  }
  const cidrs = (key: string, isList: boolean) => {
    const value = values.get(key)
    return value === undefined ? [] : readCidrs(value, isList).map((cidr) => cidr ?? fail(key, value))
  }
  const fail = (key: string, value: string): never => {
    throw wrong(path, key, "a network such as 10.244.0.0/16", value)
  }
  return {
    networks: networkKeys.flatMap((key) => [...new Set(cidrs(key, true))]),
    subnets: subnetKeys.flatMap((key) => cidrs(key, false)),
    mtu: readMtu(values.get(MTU) ?? "", path),
    ipMasq: values.get(IPMASQ) === "true",
  }
}

function readCidrs(value: string, isList: boolean): (string | undefined)[] {
  const cidrs = (isList ? value.split(",") : [value]).map(parseCidr)
  return cidrs.map((cidr: Cidr | undefined) => cidr && formatCidr({ ip: networkOf(cidr), prefix: cidr.prefix }))
}

function readMtu(value: string, path: string): number {
  const mtu = Number(value)
  if (/^\d+$/.test(value) && mtu < 2 ** 32) return mtu
  throw wrong(path, MTU, "a number", value)
}

function wrong(path: string, key: string, expected: string, found: string): CniError {
  const message = `Cannot use ${key} of the subnet file "${path}": expected ${expected}, found "${found}"`
  return new CniError(Code.Internal, message, { details: WHERE_TO_LOOK })
}
