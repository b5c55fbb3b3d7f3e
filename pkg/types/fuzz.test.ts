import { expect, test } from "bun:test"
import fc from "fast-check"
import {
  CniError,
  convertResult,
  decodeResult,
  encodeResult,
  parseJsonObject,
  parseNetworkConfig,
  readCniArgs,
  stringifyJson,
  supportedVersions,
} from "./mod.ts"
import { anyCidr, anyIp, anyResult } from "./result.fixture.ts"

// For every input decoders return a value or throw a CniError, and nothing else.

/** A key that some decoder knows, in several spellings, or any other key. */
const key = fc.oneof(
  fc.constantFrom(
    ..."cniVersion name type ipam dns args runtimeConfig prevResult interfaces ips routes ip4 ip6 ip address".split(
      " ",
    ),
    ..."gateway interface version dst gw mtu table mac sandbox nameservers search Ips IP4 __proto__ toString".split(
      " ",
    ),
    "cni.dev/valid-attachments",
    "containerID",
    "ifname",
  ),
  fc.string(),
)

const version = fc.oneof(fc.constantFrom(...supportedVersions, ""), fc.string())
const leaf = fc.oneof(fc.jsonValue({ maxDepth: 1 }), anyCidr, anyIp, version, fc.integer({ min: -1, max: 3 }))
const { document } = fc.letrec<{ value: unknown; document: Record<string, unknown> }>((tie) => ({
  value: fc.oneof({ maxDepth: 4 }, leaf, tie("document"), fc.array(tie("value"), { maxLength: 3 })),
  document: fc.dictionary(key, tie("value"), { maxKeys: 6 }),
}))

/** Returns the result of `run`, or undefined if it throws a `CniError`. */
function answer<T>(run: () => T): T | undefined {
  try {
    return run()
  } catch (error) {
    expect(error).toBeInstanceOf(CniError)
    return undefined
  }
}

/** Returns a copy of a document with another value at position `place` (modulo the number of values). */
function replaceOne(document: unknown, place: number, value: unknown): unknown {
  const spots: unknown[] = []
  JSON.stringify(document, (_key, each) => {
    spots.push(each)
    return each
  })
  let left = place % spots.length
  return JSON.parse(JSON.stringify(document, (_key, each) => (left-- === 0 ? value : each)))
}

test("any JSON as a result is a result that can be written and read again, or a CniError", () => {
  fc.assert(
    fc.property(document, version, (json, configVersion) => {
      const result = answer(() => decodeResult(json, configVersion))
      if (!result) return
      const written = encodeResult(result, "1.1.0")
      expect(decodeResult(JSON.parse(stringifyJson(written)), "1.1.0")).toEqual(result)
    }),
    { numRuns: 500 },
  )
})

test("a good result with one value replaced is a result, or a CniError that names a key", () => {
  const versions = fc.constantFrom(...supportedVersions)
  fc.assert(
    fc.property(anyResult, versions, fc.nat(), fc.jsonValue({ maxDepth: 1 }), (result, cniVersion, place, value) => {
      const good = answer(() => encodeResult(result, cniVersion))
      if (good) answer(() => decodeResult(replaceOne(good, place, value), cniVersion))
    }),
    { numRuns: 500 },
  )
})

test("any JSON converts, or is a CniError", () => {
  fc.assert(
    fc.property(document, version, version, (json, from, to) => void answer(() => convertResult(json, from, to))),
    {
      numRuns: 500,
    },
  )
})

test("any JSON is a network configuration, or a CniError", () => {
  fc.assert(
    fc.property(document, fc.boolean(), (json, lenient) => {
      const raw = answer(() => parseJsonObject(JSON.stringify({ name: "lab", ...json })))
      if (raw) answer(() => parseNetworkConfig(raw, { lenient }))
    }),
    { numRuns: 500 },
  )
})

test("any text is CNI_ARGS, or a CniError", () => {
  const text = fc.string({ unit: fc.constantFrom(..."ab=;1 ", "IgnoreUnknown=1") })
  fc.assert(fc.property(text, (args) => void answer(() => readCniArgs(args, { a: (value) => value || undefined }))))
})
