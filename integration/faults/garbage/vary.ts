import { crc32, decodeUtf8, encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { Chance } from "../../lab/chance.ts"
import { garbleMore, garbleNetlink, garbleText } from "./bytes.ts"
import { mutateText, mutateValue } from "./values.ts"

/** Returns the bytes of a string with one character for each byte. */
export function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at)
  return bytes
}

/** Returns bytes as a string with one character for each byte. */
export function textOf(bytes: Uint8Array): string {
  let text = ""
  for (let at = 0; at < bytes.length; at += 4096) text += String.fromCharCode(...bytes.subarray(at, at + 4096))
  return text
}

/** Returns a reader's input with one part garbled. An empty part, which separates answers, stays empty. */
export function vary(seed: number, reader: string, parts: readonly Uint8Array[]): Uint8Array[] {
  const chance = new Chance(Math.imul(seed + 1, 0x9e3779b1))
  const at = chance.below(parts.length)
  const varied = parts.map((part, index) => (index === at && part.length > 0 ? garble(chance, reader, part) : part))
  if (varied.length > 2 && chance.below(12) === 0) varied.splice(at, 1)
  return varied
}

function garble(chance: Chance, reader: string, bytes: Uint8Array): Uint8Array {
  if (reader.startsWith("netlink: ")) return garbleNetlink(chance, bytes)
  const kind = chance.below(4)
  const isText = bytes.every((byte) => byte < 127)
  if (!isText || kind === 0) return garbleMore(chance, bytes)
  const text = decodeUtf8(bytes)
  if (reader === "index of leases" && kind === 1) return encodeUtf8(withChecksums(garbleText(chance, text)))
  if (!text.startsWith("{") || kind === 1) return encodeUtf8(garbleText(chance, text))
  if (kind === 2) return bytesOf(mutateText(chance, text))
  let value: unknown = JSON.parse(text)
  for (let times = 1 + chance.below(2); times > 0; times--) value = mutateValue(chance, value)
  return encodeUtf8(JSON.stringify(value) ?? "")
}

/** Returns the lines of an index file with valid checksums, even for invalid content. */
function withChecksums(text: string): string {
  const lines = text.split("\n").map((line) => {
    const rest = line.slice(9)
    return rest === "" ? "" : `${crc32(rest).toString(16).padStart(8, "0")} ${rest}`
  })
  return lines.join("\n")
}
