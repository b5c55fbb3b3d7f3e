import type { Chance } from "../../lab/chance.ts"

/** This file makes almost valid bytes, like those from a broken or malicious kernel, server, disk or program. */

/** Numbers at the limits of lengths, indexes and versions. */
const edges: readonly number[] = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff]

/** Returns the bytes with some of them changed, removed or duplicated, or with the end cut off. */
export function garbleBytes(chance: Chance, bytes: Uint8Array): Uint8Array {
  const at = chance.below(bytes.length + 1)
  const to = Math.min(bytes.length, at + 1 + chance.below(24))
  switch (chance.below(8)) {
    case 0:
      return bytes.slice(0, at)
    case 1:
      return join(bytes.subarray(0, at), bytes.subarray(to))
    case 2:
      return join(bytes.subarray(0, to), bytes.subarray(at))
    case 3:
      return join(
        bytes.subarray(0, at),
        new Uint8Array(1 + chance.below(40)).fill(chance.below(256)),
        bytes.subarray(at),
      )
    case 4:
      return changed(bytes, at, to, () => chance.below(256))
    case 5:
      return changed(bytes, at, at + 1, (byte) => byte ^ (1 << chance.below(8)))
    case 6:
      return new Uint8Array(chance.below(2) === 0 ? 0 : bytes.length)
    default:
      return changed(bytes, at, at + 1, () => chance.of(edges))
  }
}

function changed(bytes: Uint8Array, from: number, to: number, change: (byte: number) => number): Uint8Array {
  const copy = bytes.slice()
  for (let at = from; at < Math.min(to, copy.length); at++) copy[at] = change(copy[at] ?? 0)
  return copy
}

/** Applies several changes of `garbleBytes`. */
export function garbleMore(chance: Chance, bytes: Uint8Array): Uint8Array {
  let garbled = garbleBytes(chance, bytes)
  while (chance.below(3) === 0) garbled = garbleBytes(chance, garbled)
  return garbled
}

/** Returns the text with one wrong line, field or number. */
export function garbleText(chance: Chance, text: string): string {
  const [separator = "\n"] = [chance.of(["\n", "\n", " ", "=", ",", ":", "\r\n", "/"])]
  const parts = text.split(separator)
  const at = chance.below(parts.length)
  const odd = ["", "0", "-1", "4294967296", "1e999", "\0", "é😀", "\ufffd", "x".repeat(5000), "../..", " ", "=", "null"]
  switch (chance.below(5)) {
    case 0:
      parts.splice(at, 1)
      break
    case 1:
      parts.splice(at, 0, parts[at] ?? "", parts[chance.below(parts.length)] ?? "")
      break
    case 2:
      return text.replace(/\d+/g, (digits) => (chance.below(3) === 0 ? chance.of(odd) : digits))
    default:
      parts[at] = chance.of(odd)
  }
  return parts.join(separator)
}

/**
 * Returns a netlink datagram with one wrong message or attribute: truncated, duplicated, wrongly nested, or with a
 * wrong length.
 */
export function garbleNetlink(chance: Chance, datagram: Uint8Array): Uint8Array {
  if (chance.below(6) === 0) return garbleBytes(chance, datagram)
  const messages = split(datagram, 0, 4)
  const at = chance.below(messages.length)
  const chosen = messages[at]
  if (!chosen || chosen.length < 16) return garbleBytes(chance, datagram)
  const kind = chance.below(10)
  if (kind === 0) messages.splice(at, 1)
  else if (kind === 1) messages.splice(at, 0, chosen)
  else if (kind === 2) messages[at] = withNumber(chosen, 0, 4, chance.of([0, 15, 16, chosen.length + 4, 0xffffffff]))
  else if (kind === 3)
    messages[at] = withNumber(chosen, 4, 2, chance.of([0, 1, 2, 3, 4, 16, 20, 24, 0x0a00, 0xffff])) // type
  else if (kind === 4)
    messages[at] = withNumber(chosen, 6, 2, chance.of([0, 2, 0x10, 0x100, 0x200, 0xffff])) // flags
  else messages[at] = garbleMessage(chance, chosen)
  return join(...messages)
}

/**
 * The possible sizes of the structure in front of a message's attributes. The message does not contain the size, so
 * `garbleMessage` tries all of them.
 */
const structs: readonly number[] = [0, 4, 8, 12, 16, 20]

function garbleMessage(chance: Chance, message: Uint8Array): Uint8Array {
  const body = message.subarray(16)
  const lengths = structs.filter((length) => length <= body.length && split(body.subarray(length), 0, 2).length > 1)
  const start = lengths.length === 0 ? undefined : chance.of(lengths)
  const garbled =
    start === undefined || chance.below(5) === 0
      ? garbleBytes(chance, body)
      : join(body.subarray(0, start), garbleAttributes(chance, body.subarray(start)))
  const whole = join(message.subarray(0, 16), garbled, new Uint8Array(-garbled.length & 3))
  return withNumber(whole, 0, 4, 16 + garbled.length)
}

function garbleAttributes(chance: Chance, bytes: Uint8Array): Uint8Array {
  const attributes = split(bytes, 0, 2)
  const at = chance.below(attributes.length)
  const chosen = attributes[at]
  if (!chosen || chosen.length < 4) return garbleBytes(chance, bytes)
  const payload = chosen.subarray(4)
  const type = (chosen[2] ?? 0) | ((chosen[3] ?? 0) << 8)
  const other = attributes[chance.below(attributes.length)] ?? chosen
  switch (chance.below(11)) {
    case 0:
      attributes.splice(at, 1)
      break
    case 1:
      attributes.splice(at, 0, chosen)
      break
    case 2: // nested in itself
      attributes[at] = attributeOf(type, chosen)
      break
    case 3: // followed by its own content
      attributes[at] = payload
      break
    case 4:
      attributes[at] = withNumber(chosen, 0, 2, chance.of([...edges, chosen.length + 1, chosen.length + 8]))
      break
    case 5: // with the content of another attribute
      attributes[at] = attributeOf(type, other.subarray(4))
      break
    case 6:
      attributes[at] = withNumber(
        chosen,
        2,
        2,
        chance.of([0, type ^ 0x8000, type ^ 0x4000, type + 1, chance.below(70)]),
      )
      break
    case 7:
      attributes[at] = attributeOf(type, new Uint8Array(chance.of(edges.filter((edge) => edge < 300))))
      break
    case 8:
      attributes[at] = attributeOf(type, payload.subarray(0, chance.below(payload.length + 1)))
      break
    case 9:
      attributes[at] = attributeOf(type, garbleBytes(chance, payload))
      break
    default: // garbles a nested attribute, if there is one
      attributes[at] = attributeOf(type, split(payload, 0, 2).length > 0 ? garbleAttributes(chance, payload) : payload)
  }
  return join(...attributes)
}

/** Splits bytes into messages or attributes, with their padding. Each has its length, of `size` bytes, at `offset`. */
function split(bytes: Uint8Array, offset: number, size: 2 | 4): Uint8Array[] {
  const parts: Uint8Array[] = []
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = number(bytes, at + offset, size)
    const end = at + ((length + 3) & ~3)
    if (length < 4 || at + length > bytes.length) return []
    parts.push(bytes.subarray(at, Math.min(end, bytes.length)))
    at = end
  }
  return parts
}

function attributeOf(type: number, payload: Uint8Array): Uint8Array {
  const length = (4 + payload.length) & 0xffff
  return join(
    Uint8Array.of(length & 0xff, length >> 8, type & 0xff, (type >> 8) & 0xff),
    payload,
    new Uint8Array(-payload.length & 3),
  )
}

function number(bytes: Uint8Array, at: number, size: 2 | 4): number {
  let value = 0
  for (let index = size - 1; index >= 0; index--) value = value * 256 + (bytes[at + index] ?? 0)
  return value
}

function withNumber(bytes: Uint8Array, at: number, size: 2 | 4, value: number): Uint8Array {
  const copy = bytes.slice()
  for (let index = 0; index < size && at + index < copy.length; index++)
    copy[at + index] = Math.floor(value / 256 ** index) & 0xff
  return copy
}

export function join(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}
