import { decodeUtf8 } from "../../pkg/engine/mod.ts"
import { findFile, isErrno } from "../../pkg/libc/mod.ts"
import { CniError, Code, orCannot } from "../../pkg/types/mod.ts"
import { Matcher } from "./matcher.ts"
import type { SysctlEntry } from "./sysctls.ts"

/** The administrator's list of sysctls that a configuration may set. If the file does not exist, all are allowed. */
const ALLOW_LIST = "/etc/cni/tuning/allowlist.conf"

/** The length of the longest accepted key, which is that of the longest path that the kernel accepts (PATH_MAX). */
const longestKey = 4096

/** The maximum length of all keys together: enough for hundreds of sysctls, matched in a fraction of a second. */
const mostCharacters = 16_384

/**
 * Refuses sysctls whose key, as written, matches no line of the allow list. Each line is a regular expression in RE2's
 * syntax, which may match anywhere in the key. If the file has no lines, no sysctl is allowed. Throws code 7 for a
 * sysctl that is not allowed and for too many keys, and code 999 for a file that cannot be used.
 */
export function refuseForbidden(sysctls: readonly SysctlEntry[], path = ALLOW_LIST): void {
  const text = sysctls.length > 0 ? readIfThere(path) : undefined
  if (text === undefined) return
  refuseTooMany(sysctls)
  const lines = text.split("\n").map((line, at) => ({ line: line.trim(), number: at + 1 }))
  const allowed = lines.filter(({ line }) => line !== "")
  const matchers = allowed.map(({ line, number }) => compile(line, `line ${number} of the allow list "${path}"`))
  for (const { key } of sysctls) {
    if (key.length <= longestKey && matchers.some((matcher) => matcher.test(key))) continue
    throw new CniError(
      Code.InvalidNetworkConfig,
      `Sysctl ${key} is not allowed. Only the following sysctls are allowed: [${allowed.map(({ line }) => line).join(" ")}]`,
      { details: `the list is "${path}"` },
    )
  }
}

/** Refuses a configuration with too many keys, because a pod's author may choose them in a text of up to 16 MiB. */
function refuseTooMany(sysctls: readonly SysctlEntry[]): void {
  const characters = sysctls.reduce((sum, { key }) => sum + key.length, 0)
  if (characters <= mostCharacters) return
  throw new CniError(
    Code.InvalidNetworkConfig,
    `Cannot use "sysctl": its names have ${characters} characters in total, but an allow list supports at most ${mostCharacters}`,
  )
}

function readIfThere(path: string): string | undefined {
  try {
    const bytes = findFile(path)
    return bytes && decodeUtf8(bytes)
  } catch (cause) {
    if (isErrno(cause, "ENOTDIR")) return undefined
    throw new CniError(Code.Internal, `Cannot read the allow list "${path}"`, { cause })
  }
}

function compile(line: string, where: string): Matcher {
  return orCannot(`Cannot use ${where}: "${line}" is not a regular expression`, () => new Matcher(line))
}
