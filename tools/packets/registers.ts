import { type Bits, unknownBits } from "./bits.ts"

/** The size of all registers in bytes: `NFT_REG32_COUNT` words. */
const SIZE = 4 * 20

/** The registers on which a rule's expressions work. */
export class Registers {
  readonly #value = new Uint8Array(SIZE)
  readonly #known = new Uint8Array(SIZE).fill(0xff)
  /** The descriptions of values with unknown bits, by the value's first byte. */
  readonly #what = new Map<number, Pick<Bits, "what" | "isRandom">>()

  /** Writes a value. As in the kernel, zeros fill its last word. */
  load(register: number, bits: Bits): void {
    const start = offsetOf(register)
    const end = Math.min(SIZE, start + 4 * Math.ceil(bits.value.length / 4))
    this.#value.fill(0, start, end)
    this.#known.fill(0xff, start, end)
    this.#value.set(bits.value.subarray(0, end - start), start)
    this.#known.set(bits.known.subarray(0, end - start), start)
    for (let at = start; at < end; at += 4) {
      this.#what.delete(at)
      if (bits.what !== undefined) this.#what.set(at, { what: bits.what, isRandom: bits.isRandom ?? false })
    }
  }

  /** Returns `length` bytes, from the first byte of a register. */
  read(register: number, length: number): Bits {
    const start = offsetOf(register)
    const known = this.#known.slice(start, start + length)
    const value = this.#value.slice(start, start + length)
    if (known.every((byte) => byte === 0xff)) return { value, known }
    const notes = Array.from({ length: Math.ceil(length / 4) }, (_, word) => this.#what.get(start + 4 * word))
    const note = notes.find((each) => each !== undefined)
    return { value, known, ...(note ?? { what: "a value" }) }
  }

  /** Makes every register unknown, because an expression that is not decoded may have written any of them. */
  forget(what: string): void {
    this.#known.fill(0)
    for (let at = 0; at < SIZE; at += 4) this.#what.set(at, { what, isRandom: false })
  }

  loadUnknown(register: number, what: string, isRandom = false): void {
    this.load(register, unknownBits(what, isRandom))
  }
}

/** Returns a register's offset: 1 to 4 have 16 bytes each, 8 to 23 are the same bytes as words; `nft_registers`. */
function offsetOf(register: number): number {
  return register < 8 ? 16 * register - 16 : 4 * (register - 8)
}
