import type { Infer } from "../netlink/mod.ts"
import type { DataType } from "./data-types.ts"
import type { dataAttributes } from "./expressions.ts"
import type { Verdict } from "./rule-set.ts"
import { policyNumber } from "./uapi.ts"

type Data = Infer<typeof dataAttributes>

/** `enum nft_verdicts`; negative ones as the 32 bits that travel. */
const NFT_JUMP = -3 >>> 0
const NFT_GOTO = -4 >>> 0
const NFT_RETURN = -5 >>> 0

/** How many 32-bit registers a value of this type fills. */
export function wordsOf(type: DataType): number {
  return Math.ceil(type.size / 4)
}

/**
 * The parts of a key as one value, as registers hold them: in a concatenation, each at a multiple of four bytes.
 * Throws `RangeError` when a part has not the size of its type.
 */
export function joinParts(types: readonly DataType[], parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length !== types.length) throw new RangeError(`${parts.length} values where ${types.length} are expected`)
  const whole = new Uint8Array(keyLength(types))
  let at = 0
  let index = 0
  for (const type of types) {
    const part = parts[index++]
    if (part?.length !== type.size) throw new RangeError(`${part?.length} bytes where ${type.name} has ${type.size}`)
    whole.set(part, at)
    at += 4 * wordsOf(type)
  }
  return whole
}

/** The parts of a value that `joinParts` has made. */
export function splitParts(types: readonly DataType[], whole: Uint8Array): Uint8Array[] {
  let at = 0
  return types.map((type) => {
    const part = whole.subarray(at, at + type.size)
    at += 4 * wordsOf(type)
    return part
  })
}

/** Bytes of a key: exact for one value, a multiple of four for each part of a concatenation. */
export function keyLength(types: readonly DataType[]): number {
  const [only, ...more] = types
  if (only && more.length === 0) return only.size
  let length = 0
  for (const type of types) length += 4 * wordsOf(type)
  return length
}

/** The id of a type, or of a concatenation, whose parts take six bits each. */
export function typeId(types: readonly DataType[]): number {
  let id = 0
  for (const type of types) id = (id << 6) | type.id
  return id
}

export function verdictData(verdict: Verdict): Data {
  if (verdict === "return") return { verdict: { code: NFT_RETURN } }
  if (typeof verdict === "string") return { verdict: { code: policyNumber[verdict] } }
  if ("jump" in verdict) return { verdict: { code: NFT_JUMP, chain: verdict.jump } }
  return { verdict: { code: NFT_GOTO, chain: verdict.goto } }
}

export function readVerdict({ code = 0, chain = "" }: NonNullable<Data["verdict"]>): Verdict {
  if (code === NFT_JUMP) return { jump: chain }
  if (code === NFT_GOTO) return { goto: chain }
  if (code === NFT_RETURN) return "return"
  return code === policyNumber.accept ? "accept" : "drop"
}
