import { encodeUtf8 } from "../engine/mod.ts"
import { CniError, Code } from "./error.ts"

const safeNameText = 'expected letters, digits, "_", "." and "-", the first a letter or a digit'

/** Checks a container ID (CNI 1.0.0, "Parameters"). Throws code 3 if it is empty, and code 4 for invalid characters. */
export function validateContainerId(id: string): void {
  if (id === "") throw new CniError(Code.UnknownContainer, "missing containerID (CNI_CONTAINERID)")
  if (isSafe(id)) return
  throw new CniError(Code.InvalidEnvironment, `invalid characters in containerID (CNI_CONTAINERID): ${safeNameText}`, {
    details: id,
  })
}

/** Checks a network's name (CNI 1.0.0, "Configuration format"). Throws code 7. */
export function validateNetworkName(name: string): void {
  if (name === "") throw new CniError(Code.InvalidNetworkConfig, 'missing network name: set "name"')
  if (isSafe(name)) return
  throw new CniError(Code.InvalidNetworkConfig, `invalid characters found in network name: ${safeNameText}`, {
    details: name,
  })
}

/** The size of an interface name in bytes, with the NUL at its end, <linux/if.h>. */
export const IFNAMSIZ = 16

/**
 * Checks an interface name by the kernel's rule (`dev_valid_name` in net/core/dev.c): 1 to 15 bytes of UTF-8, not "."
 * or "..", no "/", ":", white space or NUL. Also refuses "%", because for "x%d" the kernel chooses a number. Throws
 * code 4.
 */
export function validateInterfaceName(name: string): void {
  const refuse = (reason: string, details: string) => {
    throw new CniError(Code.InvalidEnvironment, `${reason} (CNI_IFNAME)`, { details })
  }
  if (name === "") refuse("interface name is empty", "")
  if (encodeUtf8(name).length >= IFNAMSIZ) {
    refuse(`interface name is too long: "${name}"`, "interface name should be less than 16 characters")
  }
  if (name === "." || name === "..") refuse("interface name is . or ..", "")
  // Unicode's own list of white space, because \s would add U+FEFF and lack U+0085. ASCII names skip this slow test.
  if (!isSafe(name) && /[/:\0\p{White_Space}]/u.test(name))
    refuse("interface name contains / or : or whitespace characters", name)
  if (name.includes("%")) refuse("interface name contains %", name)
}

/** Reports whether a name has only allowed characters, by a loop: a process's first regular expression is slow. */
function isSafe(name: string): boolean {
  return name !== "" && isPlain(name[0] ?? "") && isPlain(name, "_.-")
}

/** Reports whether a text has only ASCII letters, digits, and characters of `others`. */
export function isPlain(text: string, others = ""): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code >= 0x30 && code <= 0x39) continue
    const letter = code | 0x20 // as lower case
    if (letter >= 0x61 && letter <= 0x7a) continue
    if (!others.includes(text.charAt(at))) return false
  }
  return true
}
