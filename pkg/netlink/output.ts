/** The initial size of the buffer in bytes. Most messages are shorter. */
const FIRST_BYTES = 4096
/** The alignment of netlink attributes and messages in bytes. */
const ALIGNMENT = 4

/**
 * A buffer that grows at its end. A message is assembled in one buffer, header and attributes alike, because allocating
 * an array for each piece costs more than writing its bytes.
 */
export class Output {
  /** The buffer. The bytes up to `end` are encoded, those after it are undefined. `reserve` may replace the array. */
  room = new Uint8Array(FIRST_BYTES)
  end = 0
  /** The length of `room`, kept because reading the length of an array is a function call. */
  private capacity = FIRST_BYTES

  /** Ensures space for `size` more bytes after `end` and for their padding. Returns `room`. */
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

  /** Adds zeros up to the next multiple of four. `reserve` must have ensured the space. */
  align(): void {
    while (this.end & 3) this.room[this.end++] = 0
  }

  add(bytes: Uint8Array): void {
    this.reserve(bytes.length).set(bytes, this.end)
    this.end += bytes.length
  }

  addZeros(count: number): void {
    this.reserve(count).fill(0, this.end, this.end + count)
    this.end += count
  }
}

/** The buffer for all messages of the process, part of the heap image. `encoded` resets `end` to its old value. */
const scratch = new Output()

/** Returns the bytes that `append` adds to an output, as a separate array. */
export function encoded<T>(append: (value: T, to: Output) => void, value: T): Uint8Array {
  const start = scratch.end
  try {
    append(value, scratch)
    return scratch.room.slice(start, scratch.end)
  } finally {
    scratch.end = start
  }
}
