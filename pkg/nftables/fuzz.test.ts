import { describe, test } from "bun:test"
import fc from "fast-check"
import { DecodeError } from "../netlink/mod.ts"
import {
  batchAttributes,
  chainAttributes,
  elementAttributes,
  elementListAttributes,
  generationAttributes,
  rawElementListAttributes,
  ruleAttributes,
  setAttributes,
  setNameAttributes,
  tableAttributes,
} from "./attributes.ts"
import { encodeOperations } from "./encode.ts"
import { examples } from "./examples.fixture.ts"
import { expressions } from "./expressions.ts"
import { readComment } from "./userdata.ts"

const decoders = {
  batchAttributes: batchAttributes.decode,
  chainAttributes: chainAttributes.decode,
  elementAttributes: elementAttributes.decode,
  elementListAttributes: elementListAttributes.decode,
  expressions: expressions.decode,
  generationAttributes: generationAttributes.decode,
  rawElementListAttributes: rawElementListAttributes.decode,
  ruleAttributes: ruleAttributes.decode,
  setAttributes: setAttributes.decode,
  setNameAttributes: setNameAttributes.decode,
  tableAttributes: tableAttributes.decode,
  readComment,
}

/** Attributes of captured messages, truncated anywhere, with some bytes changed. */
const damaged = fc
  .tuple(
    fc.constantFrom(...Object.values(examples).flat()),
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.array(fc.tuple(fc.nat(600), fc.nat(255)), { maxLength: 4 }),
  )
  .map(([operation, part, changes]) => {
    const payload = encodeOperations([operation])[0]?.payload.slice(4) ?? new Uint8Array(0)
    const bytes = payload.slice(0, Math.ceil(part * payload.length))
    for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value
    return bytes
  })

describe("bytes of any kind are decoded, or are a DecodeError", () => {
  for (const [name, decode] of Object.entries(decoders)) {
    test(name, () => {
      const attempt = (bytes: Uint8Array) => {
        try {
          decode(bytes)
        } catch (error) {
          if (!(error instanceof DecodeError)) throw error
        }
      }
      fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), attempt), { numRuns: 500 })
      fc.assert(fc.property(damaged, attempt), { numRuns: 500 })
    })
  }
})
