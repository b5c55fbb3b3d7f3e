import { CniError, Code, decodeResult, member, messageOf, parseJsonObject, type Result } from "../types/mod.ts"

/** What a plugin left behind that did not exit with 0. */
export interface PluginFailure {
  stdout: string
  stderr: string
  /** How it ended: "exit status 3", "signal: killed", or why it could not be started. */
  cause: string
}

/**
 * The error that a failed plugin means: the error object that it printed on stdout, or, when there is none, one with
 * code 0 whose text quotes what it left on stderr and how it ended.
 */
export function pluginError({ stdout, stderr, cause }: PluginFailure): CniError {
  if (stdout !== "") return printedError(stdout, cause)
  if (stderr !== "") return new CniError(Code.Unknown, `netplugin failed: ${quote(stderr)}: ${cause}`)
  return new CniError(Code.Unknown, `netplugin failed with no error message: ${cause}`)
}

/** How many characters of what a plugin printed are quoted in an error. */
const QUOTED = 64 << 10

function quote(text: string): string {
  if (text.length <= QUOTED) return JSON.stringify(text)
  return `${JSON.stringify(text.slice(0, QUOTED))} and ${text.length - QUOTED} characters more`
}

/** Reads an error object; `code`, `msg` and `details` are passed on as they are. */
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
  return new CniError(code, msg === "" ? `netplugin failed without saying why: ${cause}` : msg, { details })
}

/**
 * Reads what a plugin printed for ADD: one JSON object, `null` for an empty one, in the layout of the version that it
 * names, else of the configuration's. Throws code 6 for anything else, nothing at all included.
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

/** Reads the answer to VERSION of a plugin, which errors call `who`. Throws code 6. */
export function readVersions(stdout: string | Uint8Array, who = "the plugin"): string[] {
  const senseless = (reason: string) =>
    new CniError(Code.Decoding, `Cannot read the answer of ${who} to VERSION: ${reason}`)
  const answer = parseJsonObject(stdout, `answer of ${who} to VERSION`)
  const cniVersion = member(answer, "cniVersion")
  if (typeof cniVersion !== "string" || cniVersion === "") throw senseless("it has no cniVersion")
  const versions = member(answer, "supportedVersions") ?? []
  if (!Array.isArray(versions)) throw senseless("its supportedVersions is not a list")
  if (versions.length === 0 && cniVersion === "0.2.0") return ["0.1.0", "0.2.0"] // as the text of 0.2.0 allowed
  if (versions.length === 0) throw senseless("its supportedVersions is missing or empty")
  return versions.map((version) => {
    if (typeof version === "string") return version
    throw senseless("its supportedVersions holds something else than strings")
  })
}
