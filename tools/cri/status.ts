import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { isCniError, isJsonObject, type JsonObject, type JsonValue, parseJson } from "../../pkg/types/mod.ts"
import { callOver } from "./call.ts"
import { GrpcError, UNIMPLEMENTED } from "./exchange.ts"
import { readMessage } from "./protobuf.ts"

/** The versions of CRI in which Status has the same fields. containerd before 1.6 and CRI-O before 1.20 know the older one only. */
const versions = ["runtime.v1", "runtime.v1alpha2"]
/** StatusRequest with `verbose`, its field 1. */
const verbose = Uint8Array.of(0x08, 1)

/** What a container runtime says of its network. */
export interface RuntimeStatus {
  /** Its condition NetworkReady, and why it is not; undefined when it does not say. */
  readonly network: { readonly isReady: boolean; readonly reason: string } | undefined
  /** The configurations that it has loaded; undefined of a runtime that does not say, as CRI-O. */
  readonly loaded: LoadedNetworks | undefined
}

/** What containerd says of the networks that it has loaded. */
export interface LoadedNetworks {
  /** The directory that it reads. */
  readonly confDir: string
  readonly networks: readonly LoadedNetwork[]
  /** How its last look at the directory went: "OK", or an error. */
  readonly lastLoad: string | undefined
}

/** A network of a runtime: its name, and the texts that it was read of: of a list, and of each plugin. */
export interface LoadedNetwork {
  readonly name: string
  readonly sources: readonly string[]
}

/**
 * Asks the container runtime that listens on a socket for its status, like `crictl info`. Undefined where nothing listens. Throws
 * `GrpcError`, `Http2Error` and `SyscallError`; also when it takes longer than `timeoutMs`.
 */
export async function askStatus(socket: string, timeoutMs: number): Promise<RuntimeStatus | undefined> {
  for (const version of versions) {
    try {
      const answer = await callOver(socket, { path: `/${version}.RuntimeService/Status`, message: verbose, timeoutMs })
      return answer && readStatus(answer)
    } catch (error) {
      const isOlder = error instanceof GrpcError && error.code === UNIMPLEMENTED && version !== versions.at(-1)
      if (!isOlder) throw error
    }
  }
  return undefined
}

/**
 * A StatusResponse of k8s.io/cri-api: field 1 are the conditions (1 type, 2 status, 3 reason, 4 message), field 2 a map with texts in JSON.
 * Throws `Http2Error` for bytes that are no such message.
 */
export function readStatus(answer: Uint8Array): RuntimeStatus {
  const { bytes } = readMessage(answer)
  const conditions = parts(parts(answer, 1)[0], 1).map((condition) => {
    const text = (number: number) => decodeUtf8(parts(condition, number).at(-1) ?? new Uint8Array())
    return { type: text(1), isReady: readMessage(condition).numbers.get(2) === 1, reason: text(4) || text(3) }
  })
  const info = (bytes.get(2) ?? []).map((entry) => [1, 2].map((number) => decodeUtf8(parts(entry, number)[0] ?? none)))
  const find = (wanted: string) => info.find(([key]) => key === wanted)?.[1]
  const network = conditions.find(({ type }) => type === "NetworkReady")
  const lastLoad = find("lastCNILoadStatus.default") ?? find("lastCNILoadStatus")
  return {
    network: network && { isReady: network.isReady, reason: network.reason },
    loaded: readLoaded(find("cniconfig"), lastLoad),
  }
}

const none = new Uint8Array()
const parts = (message: Uint8Array | undefined, number: number) =>
  (message && readMessage(message).bytes.get(number)) ?? []

/** `cniconfig` of containerd: the ConfigResult of github.com/containerd/go-cni, with Go's names. */
function readLoaded(text: string | undefined, lastLoad: string | undefined): LoadedNetworks | undefined {
  const root = text === undefined ? undefined : parsed(text)
  if (!isJsonObject(root)) return undefined
  const networks = objects(root.Networks).flatMap(({ Config: config }): LoadedNetwork[] => {
    if (!isJsonObject(config)) return []
    const texts = [config, ...objects(config.Plugins)].map(({ Source: source }) => source)
    return [{ name: textOf(config.Name), sources: texts.filter((source) => typeof source === "string") }]
  })
  return { confDir: textOf(root.PluginConfDir), networks, lastLoad }
}

const textOf = (value: JsonValue | undefined) => (typeof value === "string" ? value : "")
const objects = (value: JsonValue | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isJsonObject) : [])

function parsed(text: string): JsonValue | undefined {
  try {
    return parseJson(text)
  } catch (error) {
    if (isCniError(error)) return undefined
    throw error
  }
}
