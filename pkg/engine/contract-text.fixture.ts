import type { Cases, Json } from "./contract.fixture.ts"
import type { Engine } from "./engine.ts"

const bytesOf = (hex: string) => Uint8Array.from(hex.match(/[0-9a-f]{2}/g) ?? [], (byte) => Number.parseInt(byte, 16))
const hexOf = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")

/** UTF-8 and its decoding: Unicode 16, table 3-7, and section 3.9 "U+FFFD Substitution of Maximal Subparts". */
const decodings: readonly (readonly [what: string, hex: string, text: string])[] = [
  ["nothing", "", ""],
  ["ASCII with NUL", "610062", "a\0b"],
  ["two, three, four bytes", "c3a9e29883f09f9880", "é☃😀"],
  [
    "the first and last of each length",
    "00 7f c280 dfbf e0a080 efbfbf f0908080 f48fbfbf",
    "\0\x7f\x80\u07ff\u0800\uffff\u{10000}\u{10ffff}",
  ],
  ["before and after the surrogates", "ed9fbf ee8080", "\ud7ff\ue000"],
  ["latin 1 only", "c3bf c280", "\xff\x80"],
  ["a byte order mark", "efbbbf61", "\ufeffa"],
  ["two byte order marks", "efbbbfefbbbf", "\ufeff\ufeff"],
  ["a byte order mark of UTF-16", "fffe", "\ufffd\ufffd"],
  ["noncharacters", "efbfbe efb790", "\ufffe\ufdd0"],
  ["U+FFFD itself", "efbfbd", "\ufffd"],
  ["a lone continuation", "61 80 62", "a\ufffdb"],
  ["lone continuations", "80bf80", "\ufffd\ufffd\ufffd"],
  [
    "overlong NUL of two, three, four bytes",
    "c080 e08080 f0808080",
    "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd",
  ],
  ["overlong slash", "c0af e080af f08080af", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"],
  ["the longest overlong ones", "c1bf e09fbf f08fbfbf", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"],
  ["surrogates", "eda080 edbfbf", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"],
  ["a pair of surrogates (CESU-8)", "eda0bdedb880", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"],
  ["beyond U+10FFFF", "f4908080 f7bfbfbf", "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"],
  ["five and six bytes", "f888808080 fc8480808080", "\ufffd".repeat(11)],
  ["bytes that are never used", "c0 c1 f5 fe ff", "\ufffd\ufffd\ufffd\ufffd\ufffd"],
  ["cut after one of two, two of three, three of four", "c3 61 e298 61 f09f98 61", "\ufffda\ufffda\ufffda"],
  ["cut after one of three and of four, two of four", "e2 61 f0 61 f09f 61", "\ufffda\ufffda\ufffda"],
  ["cut at the end, two bytes", "61c3", "a\ufffd"],
  ["cut at the end, three bytes", "61e298", "a\ufffd"],
  ["cut at the end, four bytes", "61f09f98", "a\ufffd"],
  ["a start where a continuation belongs", "e2c3a9 f09fe29883", "\ufffdé\ufffd☃"],
  ["good text around bad", "c3a9ffe29883", "é\ufffd☃"],
  ["the table's own example", "61 f1 80 80 e1 80 c2 62 80 63 80 bf 64", "a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd"],
]

const encodings: readonly (readonly [what: string, text: string, hex: string])[] = [
  ["nothing", "", ""],
  ["NUL", "a\0b", "610062"],
  ["latin 1", "é\xff\x80", "c3a9c3bfc280"],
  ["all lengths", "\x7f\u07ff\uffff\u{10ffff}", "7fdfbfefbfbff48fbfbf"],
  ["a byte order mark", "\ufeffa", "efbbbf61"],
  ["a lone high surrogate", "a\ud800b", "61efbfbd62"],
  ["a lone low surrogate", "\udc00", "efbfbd"],
  ["surrogates in the wrong order", "\ude00\ud83d", "efbfbdefbfbd"],
  ["a high surrogate before a pair", "\ud83d\ud83d\ude00", "efbfbdf09f9880"],
  ["what looks like a surrogate's second byte", "\ud7ff\ue000퟿", "ed9fbfee8080ed9fbf"],
  ["a lone surrogate at the end of latin 1", "é\udfff", "c3a9efbfbd"],
]

/** Encoding and decoding of UTF-8 and Latin-1, and checksums. */
export const textCases: Cases = [
  ...decodings.map(([what, hex, text]) => [`decode ${what}`, (e: Engine) => e.decodeUtf8(bytesOf(hex)), text] as const),
  ...encodings.map(([what, text, hex]) => [`encode ${what}`, (e: Engine) => hexOf(e.encodeUtf8(text)), hex] as const),
  ["decode a part of an array", (e) => e.decodeUtf8(bytesOf("ffc3a9ff").subarray(1, 3)), "é"],
  [
    "decode the bytes of any array",
    (e) => [e.decodeUtf8(Uint16Array.of(0xa9c3, 0x6161) as never), e.decodeLatin1(Uint16Array.of(0xa9c3) as never)],
    ["éaa", "Ã©"],
  ],
  [
    "decode Latin-1: a character for each byte",
    (e) => e.decodeLatin1(bytesOf("00 41 7f 80 9f a0 ff")),
    "\0A\x7f\x80\x9f\xa0\xff",
  ],
  [
    "decode Latin-1 of nothing, and of a part",
    (e) => [e.decodeLatin1(new Uint8Array()), e.decodeLatin1(bytesOf("414243").subarray(1, 2))],
    ["", "B"],
  ],
  [
    "CRC-32 of nothing, of the standard's check value, of a part, of every byte", // by zlib
    (e) => [
      e.crc32(new Uint8Array()),
      e.crc32(e.encodeUtf8("123456789")),
      e.crc32(e.encodeUtf8("0123456789").subarray(1)),
      e.crc32(Uint8Array.from({ length: 256 }, (_, byte) => byte)),
    ],
    [0, 0xcbf43926, 0xcbf43926, 0x29058c73],
  ],
  [
    "find bytes: the first place from a place on, and -1 where they are not",
    (e) => {
      const find = (hex: string, from: number) =>
        e.findBytes(bytesOf("ff 00 61 62 00 61 62 63").subarray(1), bytesOf(hex), from)
      return [
        [find("00 61 62", 0), find("00 61 62", 1), find("00 61 62", 4), find("63", 6), find("63", 7)],
        [find("61 62 64", 0), find("62 63 00", 0), find("ff", 0), find("61", 8), find("61", 2 ** 31 - 1)],
      ]
    },
    [
      [0, 3, -1, 6, -1],
      [-1, -1, -1, -1, -1],
    ],
  ],
  [
    "find nothing: where it is looked for, to the end",
    (e) => [0, 3, 4].map((from) => e.findBytes(bytesOf("61 62 63"), new Uint8Array(), from)),
    [0, 3, -1],
  ],
  ["find bytes in none", (e) => e.findBytes(new Uint8Array(), bytesOf("61"), 0), -1],
  [
    "texts of a decoder are those of the source, as keys too",
    (e) => {
      const keys = [
        e.decodeLatin1(Uint8Array.of(0xe9)),
        e.decodeLatin1(Uint8Array.of(0x78)),
        e.decodeUtf8(bytesOf("e29883")),
      ]
      const object = Object.fromEntries(["é", "x", "☃"].map((key, at) => [key, at + 1]))
      return [
        keys.map((key) => object[key] ?? 0),
        keys.map((key) => new Set(["é", "x", "☃"]).has(key)),
        keys.join("") === "éx☃",
      ]
    },
    [[1, 2, 3], [true, true, true], true],
  ],
  [
    "encode answers an array of its own",
    (e) => [e.encodeUtf8("a").fill(0)[0] ?? 9, e.encodeUtf8("a")[0] ?? 9],
    [0, 97],
  ],
  [
    "a long text",
    (e) => [
      e.encodeUtf8("☃".repeat(100_000)).length,
      e.decodeUtf8(e.encodeUtf8("😀".repeat(50_000))) === "😀".repeat(50_000),
    ],
    [300_000, true],
  ],
  [
    "decode a megabyte of nonsense",
    (e) => e.decodeUtf8(new Uint8Array(1 << 20).fill(0xff)) === "\ufffd".repeat(1 << 20),
    true,
  ],
]

/** Returns pseudo-random bytes that matter to a decoder, the same on each engine: by xorshift32. */
export function noise(): Uint8Array[] {
  let state = 2463534242
  const below = (limit: number) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % limit
  }
  const telling = bytesOf("00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f7 f8 ff bb bf bd")
  const byte = (kind: number) => (kind === 0 ? below(256) : (telling[below(telling.length)] ?? 0))
  return Array.from({ length: 5000 }, (_, index) => Uint8Array.from({ length: below(24) }, () => byte(index % 3)))
}

export function decodedNoise(engine: Engine): Json {
  return noise().map((bytes) => engine.decodeUtf8(bytes))
}
