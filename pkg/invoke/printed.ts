import { CniError, Code, decodeResult, member, messageOf, parseJsonObject, type Result } from "../types/mod.ts"

/** The output of a plugin that did not exit with 0. */
export interface PluginFailure {
  stdout: string
  stderr: string
  /** The way it ended: "exit status 3", "signal: killed", or the reason why it could not be started. */
  cause: string
}

/**
 * Returns the error of a failed plugin: the error object on its stdout. Without an error object, returns an error with
 * code 0 that quotes the plugin's stderr and says how the plugin ended.
 */
export function pluginError({ stdout, stderr, cause }: PluginFailure): CniError {
  if (stdout !== "") return printedError(stdout, cause)
  if (stderr !== "") return new CniError(Code.Unknown, `netplugin failed: ${quote(stderr)}: ${cause}`)
  return new CniError(Code.Unknown, `netplugin failed with no error message: ${cause}`)
}

/** The maximum number of characters of a plugin's output that an error quotes. */
const QUOTED = 64 << 10

function quote(text: string): string {
  if (text.length <= QUOTED) return JSON.stringify(text)
  return `${JSON.stringify(text.slice(0, QUOTED))} and ${text.length - QUOTED} characters more`
}

/** Reads an error object. Returns its `code`, `msg` and `details` unchanged. */
function printedError(stdout: string, cause: string): CniError {
  const garbled = (reason: string) =>
    new CniError(
      Code.Unknown,
      `netplugin failed but error parsing its diagnostic message ${quote(stdout)}: ${reason}`,
      { details: cause },
    )
  let object: ReturnType<typeof parseJsonObject>
  try {
    object = parseJsonObject(stdout, "error object")
  } catch (error) {
    return garbled(messageOf(error))
  }
  const code = member(object, "code") ?? 0
  const msg = member(object, "msg") ?? ""
  const details = member(object, "details") ?? ""
  if (typeof code !== "number" || !Number.isSafeInteger(code) || code < 0) {
    return garbled("its code is not a non-negative integer")
  }
  if (typeof msg !== "string" || typeof details !== "string") return garbled("its msg or details is not a string")
  return new CniError(code, msg === "" ? `netplugin failed without a message: ${cause}` : msg, { details })
}

/**
 * Reads the result of ADD: one JSON object, or `null` for an empty one. Its layout is that of the version that it
 * names, or else of the configuration's version. Throws code 6 for anything else, including no output.
 */
export function readResult(stdout: string | Uint8Array, configVersion: string): Result {
  try {
    return decodeResult(parseJsonObject(stdout, "result"), configVersion)
  } catch (error) {
    const reason = messageOf(error)
    throw new CniError(
      error instanceof CniError ? error.code : Code.Decoding,
      `failed to unmarshal raw result: ${reason}`,
    )
  }
}

/** Reads the answer to VERSION. `who` names the plugin in errors. Throws code 6. */
export function readVersions(stdout: string | Uint8Array, who = "the plugin"): string[] {
  const senseless = (reason: string) =>
    new CniError(Code.Decoding, `Cannot read the answer of ${who} to VERSION: ${reason}`)
  const answer = parseJsonObject(stdout, `answer of ${who} to VERSION`)
  const cniVersion = member(answer, "cniVersion")
  if (typeof cniVersion !== "string" || cniVersion === "") throw senseless("it has no cniVersion")
  const versions = member(answer, "supportedVersions") ?? []
  if (!Array.isArray(versions)) throw senseless("its supportedVersions is not a list")
  if (versions.length === 0 && cniVersion === "0.2.0") return ["0.1.0", "0.2.0"] // the text of 0.2.0 allows this
  if (versions.length === 0) throw senseless("its supportedVersions is missing or empty")
  return versions.map((version) => {
    if (typeof version === "string") return version
    throw senseless("its supportedVersions has elements that are not strings")
  })
}
