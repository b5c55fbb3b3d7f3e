import { Decoder, foldKeys, wrongType } from "./decode.ts"
import { CniError, Code, orCannot } from "./error.ts"
import { describe, isJsonObject, type JsonObject, type JsonValue } from "./json.ts"
import { validateNetworkName } from "./names.ts"
import { type Dns, decodeDns, type Result } from "./result.ts"
import { decodeResultOf } from "./result-codec.ts"
import { layoutOf } from "./version.ts"

/** The keys of a plugin's configuration that the specification defines, decoded. */
export interface NetworkConfig {
  /** The version; "0.1.0" if absent. Not checked here, because `pkg/skel` compares it with the plugin's versions. */
  cniVersion: string
  name: string
  /** The plugin's name; "" if absent. */
  type: string
  /** The configuration of the IPAM plugin. The key `type` has its standard spelling, and the rest is as written. */
  ipam?: IpamConfig
  dns?: Dns
  args?: JsonObject
  /** The runtime's values for the capabilities. Call `foldKeys` before use, because containerd capitalizes the keys. */
  runtimeConfig?: JsonObject
  prevResult?: Result
  /** For GC: the attachments that are still valid. Absent means "unknown"; `null` becomes an empty list, as in Go. */
  attachments?: Attachment[]
}

/** The configuration of an IPAM plugin; `type` names its executable. */
export type IpamConfig = JsonObject & { type?: string }

/** One interface of a container, as GC names it. */
export interface Attachment {
  containerID: string
  ifname: string
}

const validAttachments = "cni.dev/valid-attachments" // the key of CNI 1.1.0 as amended
const taggedAttachments = "cni.dev/attachments" // the key of the tagged 1.1.0 text; runtimes send both

/**
 * Decodes a plugin's configuration. Throws code 6 for a key of the wrong type or a `prevResult` of another version, and
 * code 7 for an invalid name or attachment. With `lenient`, for DEL, unreadable `ipam`, `dns`, `runtimeConfig` and
 * `prevResult` count as absent, because they must not stop a cleanup.
 */
export function parseNetworkConfig(raw: JsonObject, options: { lenient?: boolean } = {}): NetworkConfig {
  const from = new Decoder(raw, "")
  const read = <T>(decode: () => T): T | undefined => {
    try {
      return decode()
    } catch (error) {
      if (options.lenient) return undefined
      throw error
    }
  }
  const cniVersion = from.string("cniVersion") || "0.1.0"
  const name = from.string("name") ?? ""
  validateNetworkName(name)
  const config: NetworkConfig = { cniVersion, name, type: from.string("type") ?? "" }
  const args = from.value("args")
  if (isJsonObject(args)) config.args = args // anything else is ignored, as allowed (CNI 0.2.0, "args")
  const ipam = read(() => decodeIpam(from))
  if (ipam) config.ipam = ipam
  const dns = read(() => (from.object("dns") ? decodeDns(from) : undefined))
  if (dns) config.dns = dns
  const runtimeConfig = read(() => from.object("runtimeConfig"))
  if (runtimeConfig) config.runtimeConfig = runtimeConfig
  const prevResult = read(() => decodePrevResult(from, cniVersion))
  if (prevResult) config.prevResult = prevResult
  const attachments = from.value(validAttachments) ?? from.value(taggedAttachments)
  if (attachments !== undefined) config.attachments = decodeAttachments(attachments)
  else if (from.has(validAttachments) || from.has(taggedAttachments)) config.attachments = []
  return config
}

function decodeIpam(from: Decoder): IpamConfig | undefined {
  const object = from.object("ipam")
  if (!object) return undefined
  const { type: _, ...ipam } = foldKeys(object, ["type"])
  const type = new Decoder(object, "ipam").string("type")
  return type === undefined ? ipam : { type, ...ipam }
}

/** Decodes the previous result. Returns undefined for an unknown version, which `pkg/skel` refuses with code 1. */
function decodePrevResult(from: Decoder, cniVersion: string): Result | undefined {
  const object = from.object("prevResult")
  if (!object || !layoutOf(cniVersion)) return undefined
  return orCannot('Cannot use "prevResult"', () => decodeResultOf(cniVersion, object), Code.Decoding)
}

/** Decodes the attachments. Skips none, because GC would delete the resources of a skipped attachment. */
function decodeAttachments(value: JsonValue): Attachment[] {
  if (!Array.isArray(value)) throw wrongType(validAttachments, "a list", value)
  return value.map((element, index) => {
    const path = `${validAttachments}[${index}]`
    const from = new Decoder(element, path)
    const containerID = from.string("containerID")
    const ifname = from.string("ifname")
    if (containerID && ifname) return { containerID, ifname }
    throw new CniError(
      Code.InvalidNetworkConfig,
      `Cannot use "${path}": expected containerID and ifname, found ${describe(element)}`,
    )
  })
}
