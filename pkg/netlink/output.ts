/** The initial size in bytes: most messages are shorter. */
const FIRST_BYTES = 4096
/** Netlink aligns everything to four bytes. */
const ALIGNMENT = 4

/**
 * A buffer that grows at its end. A message, header and attributes alike, is assembled in one of these: on the engine
 * an array for each piece costs more than writing its bytes.
 */
export class Output {
  /** The buffer: the encoded bytes up to `end`, and undefined bytes after them. `reserve` may replace the array. */
  room = new Uint8Array(FIRST_BYTES)
  end = 0
  /** Kept, since reading the length of an array is a call. */
  private capacity = FIRST_BYTES

  /** Makes space for `size` more bytes after `end`, and for the padding after them. Returns `room`. */
  reserve(size: number): Uint8Array {
    if (this.end + size + ALIGNMENT > this.capacity) this.#grow(size)
    return this.room
  }

  #grow(size: number): void {
    const larger = new Uint8Array(2 * (this.end + size + ALIGNMENT))
    larger.set(this.room)
    this.room = larger
    this.capacity = larger.length
  }

  /** Adds zeros up to the next multiple of four; `reserve` has made space for them. */
  align(): void {
    while (this.end & 3) this.room[this.end++] = 0
  }

  /** Adds these bytes. */
  add(bytes: Uint8Array): void {
    this.reserve(bytes.length).set(bytes, this.end)
    this.end += bytes.length
  }

  /** Adds `count` zeros. */
  addZeros(count: number): void {
    this.reserve(count).fill(0, this.end, this.end + count)
    this.end += count
  }
}

/** The process's only output, in its image. Each use of it ends at the offset where it began: see `encoded`. */
const scratch = new Output()

/** Returns what `append` adds to an output, as an array of its own. */
export function encoded<T>(append: (value: T, to: Output) => void, value: T): Uint8Array {
  const start = scratch.end
  try {
    append(value, scratch)
    return scratch.room.slice(start, scratch.end)
  } finally {
    scratch.end = start
  }
}
