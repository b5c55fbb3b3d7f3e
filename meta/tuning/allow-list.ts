import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { isErrno, readFileIfThere } from "../../pkg/libc/mod.ts"
import { CniError, Code } from "../../pkg/types/mod.ts"
import type { SysctlEntry } from "./config.ts"
import { compilePattern } from "./pattern.ts"

/** The administrator's word on which sysctls a configuration may set; every sysctl when there is no such file. */
const ALLOW_LIST = "/etc/cni/tuning/allowlist.conf"

/**
 * Refuses sysctls that the allow list does not have: those whose key, as it was written, none of its lines matches. Each
 * line is a regular expression in RE2's syntax that may match anywhere in the key; a file without lines allows nothing.
 * Throws code 7 for a sysctl that is not allowed, code 999 for a file that cannot be used.
 */
export function refuseForbidden(sysctls: readonly SysctlEntry[], path = ALLOW_LIST): void {
  const text = sysctls.length > 0 ? readIfThere(path) : undefined
  if (text === undefined) return
  const lines = text.split("\n").map((line) => line.trim())
  const patterns = lines.filter((line) => line !== "").map((line) => ({ line, pattern: compile(line, path) }))
  for (const { key } of sysctls) {
    if (patterns.some(({ pattern }) => pattern.test(key))) continue
    const allowed = patterns.map(({ line }) => line).join(" ")
    throw new CniError(
      Code.InvalidNetworkConfig,
      `Sysctl ${key} is not allowed. Only the following sysctls are allowed: [${allowed}]`,
      { details: `the list is "${path}"` },
    )
  }
}

function readIfThere(path: string): string | undefined {
  try {
    const bytes = readFileIfThere(path)
    return bytes && decodeUtf8(bytes)
  } catch (cause) {
    if (isErrno(cause, "ENOTDIR")) return undefined
    throw new CniError(Code.Internal, `Cannot read the allow list "${path}"`, { cause })
  }
}

function compile(line: string, path: string): RegExp {
  try {
    return compilePattern(line)
  } catch (cause) {
    throw new CniError(Code.Internal, `Cannot use the allow list "${path}": "${line}" is no regular expression`, {
      cause,
    })
  }
}
