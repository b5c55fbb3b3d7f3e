import {
  CniError,
  Code,
  isCniError,
  type JsonObject,
  member,
  type NetworkConfig,
  newestVersion,
  parseJsonObject,
  parseNetworkConfig,
} from "../types/mod.ts"

/** Reads stdin; throws code 5 when that fails. */
export function readInput(stdin: () => Uint8Array): Uint8Array {
  try {
    return stdin()
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new CniError(Code.Io, `error reading from stdin: ${reason}`)
  }
}

/** The configuration as a JSON object. Throws code 6. */
export function parseInput(bytes: Uint8Array): JsonObject {
  return unmarshal(() => parseJsonObject(bytes, "text on stdin"))
}

/** The version that a configuration names, checked or not, for the error object; else the newest one. */
export function versionOf(raw: JsonObject): string {
  const version = member(raw, "cniVersion") ?? ""
  if (typeof version !== "string") return newestVersion
  return version === "" ? "0.1.0" : version
}

/**
 * The configuration's common keys. Throws code 6 or 7. A command that makes and tests nothing, such as DEL, does with
 * what can be read of them, and logs what cannot.
 */
export function parseNetwork(raw: JsonObject, command: string, log: (line: string) => void): NetworkConfig {
  return unmarshal(() => {
    try {
      return parseNetworkConfig(raw)
    } catch (error) {
      if (command === "ADD" || command === "CHECK" || command === "STATUS") throw error
      const network = parseNetworkConfig(raw, { lenient: true })
      log(`${command} goes on without a part of the configuration: ${String(error)}`)
      return network
    }
  })
}

/** Puts the words before a decoding error that programs look for; the spelling is theirs. */
function unmarshal<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!isCniError(error, Code.Decoding)) throw error
    throw new CniError(Code.Decoding, `error unmarshall network config: ${error.message}`, {
      details: error.details ?? "",
    })
  }
}
