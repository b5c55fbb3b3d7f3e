/** The exponents of the prefixes: "k" is 1000^1, "Ki" is 1024^1, "M" is 1000^2. */
const powers = { "": 0, k: 1, m: 2, g: 3, t: 4 } as const

const pattern = /^(\d{1,20}(?:\.\d{1,9})?)(?: (?=\S))?(?:([kKmMgGtT])(i)?)?(bits?|B)?(\/s)?$/

export const expectedRate =
  'bits per second, as a whole number or with a unit such as "10M", "1Gbit", "2.5MB/s", "512Kibit"'
export const expectedBurst = 'bits, as a whole number or with a unit such as "2M", "2Mbit", "256KiB"'

/**
 * Parses a rate in bits per second: "10M", "10Mbit", "10Mbit/s" and "1.25MB/s" are 10,000,000. Returns undefined for
 * any other text, for a fraction of a bit, and for 2^53 or more. "10m" is refused because it is a hundredth in
 * Kubernetes, and "10Mbps" because tc reads it as bytes.
 */
export function parseRate(text: string): number | undefined {
  return parseBits(text, true)
}

/** Parses a number of bits: "256KiB" is 2,097,152. Returns undefined for any other text. */
export function parseBurst(text: string): number | undefined {
  return parseBits(text, false)
}

function parseBits(text: string, isRate: boolean): number | undefined {
  const match = pattern.exec(text)
  if (!match) return undefined
  const [, digits = "", prefix = "", binary, unit = "", perSecond] = match
  if (perSecond && !isRate) return undefined
  // A lower-case prefix is accepted only with bits, except for k, which has no other meaning.
  if (/[mgt]/.test(prefix) && !unit.startsWith("bit")) return undefined
  const power = powers[prefix.toLowerCase() as keyof typeof powers]
  const bits = Number(digits) * (binary ? 1024 : 1000) ** power * (unit === "B" ? 8 : 1)
  const rounded = Math.round(bits)
  return Math.abs(bits - rounded) < 1e-6 && Number.isSafeInteger(rounded) ? rounded : undefined
}
