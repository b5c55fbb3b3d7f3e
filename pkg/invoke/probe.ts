import { encodeUtf8 } from "../engine/mod.ts"
import { CniError, Code, member, newestVersion, parseJsonObject } from "../types/mod.ts"
import { pluginEnvironment } from "./environment.ts"
import { type Environment, execPlugin } from "./exec.ts"

/** What a plugin is asked with: its path, the environment to add to, and how long it may take. */
export interface Probe {
  path: string
  env: Environment
  timeoutMs?: number
  log?: (text: string) => void
}

/**
 * Asks a plugin for the versions of the specification that it supports, with CNI_COMMAND=VERSION. Plugins from before
 * that verb insist on the other variables, so dummies are sent, and are known by their answer: they support 0.1.0.
 * Throws the plugin's error, or code 6 when the answer makes no sense.
 */
export function probeVersions(probe: Probe): string[] {
  const dummy = "dummy"
  const variables = { command: "VERSION", containerId: "", netns: dummy, ifName: dummy, args: "", path: dummy }
  const env = pluginEnvironment(probe.env, variables)
  const stdin = encodeUtf8(JSON.stringify({ cniVersion: newestVersion }))
  try {
    return readVersions(execPlugin({ ...probe, env, stdin }))
  } catch (error) {
    if (error instanceof CniError && error.toString() === "unknown CNI_COMMAND: VERSION") return ["0.1.0"]
    throw error
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
