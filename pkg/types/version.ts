import { CniError, Code } from "./error.ts"

/** The released versions of the CNI specification, oldest first. */
export const supportedVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const

/** The newest version, which this suite prefers. */
export const newestVersion = "1.1.0"

/** Major, minor and patch level. */
export type Version = readonly [major: number, minor: number, patch: number]

/**
 * Parses one to three numbers separated by dots. Missing numbers are 0, and "" is 0.1.0. Accepts signs and leading
 * zeros, like upstream. Throws a `CniError` of code 6 for anything else.
 */
export function parseVersion(text: string): Version {
  if (text === "") return [0, 1, 0]
  const [major = "", minor = "0", patch = "0", ...more] = text.split(".")
  if (more.length > 0 || !isNumber(major) || !isNumber(minor) || !isNumber(patch)) {
    throw new CniError(
      Code.Decoding,
      `Cannot decode CNI version "${text}": expected up to three numbers separated by dots, like "${newestVersion}"`,
    )
  }
  return [Number(major), Number(minor), Number(patch)]
}

function isNumber(text: string): boolean {
  return /^[+-]?\d{1,15}$/.test(text)
}

/** Returns a negative number if `a` is older than `b`, zero if equal, or a positive one. Throws like `parseVersion`. */
export function compareVersions(a: string, b: string): number {
  const [majorA, minorA, patchA] = parseVersion(a)
  const [majorB, minorB, patchB] = parseVersion(b)
  return majorA - majorB || minorA - minorB || patchA - patchB
}

/** Reports whether `version` is `minimum` or newer. Throws like `parseVersion`. */
export function atLeast(version: string, minimum: string): boolean {
  return compareVersions(version, minimum) >= 0
}

/** The layouts of a result. Each is named after the newest version that uses it. */
export type Layout = "0.2.0" | "0.4.0" | "1.1.0"

/** Returns the layout of a version's results ("" is 0.1.0), or `undefined` for an unknown version. */
export function layoutOf(version: string): Layout | undefined {
  return layouts.get(version)
}

const layouts = new Map<string, Layout>([
  ...["", "0.1.0", "0.2.0"].map((version) => [version, "0.2.0"] as const),
  ...["0.3.0", "0.3.1", "0.4.0"].map((version) => [version, "0.4.0"] as const),
  ...["1.0.0", "1.1.0"].map((version) => [version, "1.1.0"] as const),
])
