import { expect, test } from "bun:test"
import fc from "fast-check"
import { anyCharacter } from "../types/testing/any-character.ts"
import { attachment, Recorder } from "./plugin.fixture.ts"
import { serve } from "./serve.ts"

const command = fc.constantFrom("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "NOPE", "add")
const anyText = fc.string({ unit: anyCharacter, maxLength: 20 })
const variable = fc.oneof(fc.constant(undefined), fc.constant(""), anyText)
const env = fc.record({
  CNI_COMMAND: fc.oneof(command, command, anyText),
  CNI_CONTAINERID: fc.oneof(fc.constant(attachment.CNI_CONTAINERID), variable),
  CNI_NETNS: fc.oneof(fc.constant(attachment.CNI_NETNS), fc.constant("/proc/thread-self/ns/net"), variable),
  CNI_IFNAME: fc.oneof(fc.constant(attachment.CNI_IFNAME), variable),
  CNI_ARGS: variable,
  CNI_PATH: fc.oneof(fc.constant(attachment.CNI_PATH), variable),
  CNI_NETNS_OVERRIDE: variable,
})
const networkLike = fc.record(
  {
    cniVersion: fc.oneof(fc.constantFrom("0.1.0", "0.4.0", "1.0.0", "1.1.0", "9.9.9", ""), fc.jsonValue()),
    name: fc.oneof(fc.constant("lab"), fc.jsonValue()),
    type: fc.jsonValue(),
    ipam: fc.jsonValue(),
    dns: fc.jsonValue(),
    prevResult: fc.jsonValue(),
    "cni.dev/valid-attachments": fc.jsonValue(),
  },
  { requiredKeys: [] },
)
const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))
const stdin = fc.oneof(networkLike.map(encode), fc.jsonValue().map(encode), fc.uint8Array({ maxLength: 64 }))

test("#1, #2, #98 on any input a failure is one JSON object with a version, a code and a text, and success is quiet or JSON", () => {
  fc.assert(
    fc.property(env, stdin, fc.boolean(), (variables, bytes, isBroken) => {
      const recorder = new Recorder({
        behave: () => {
          if (isBroken) throw new Error("broken")
        },
      })
      const reply = serve(recorder.plugin, { env: variables, stdin: () => bytes, log: () => {} })
      expect(recorder.calls.length).toBeLessThanOrEqual(1)
      if (reply.exitCode === 0) {
        if (reply.stdout !== "") expect(JSON.parse(reply.stdout).cniVersion).toBeString()
        return
      }
      expect(reply.exitCode).toBe(1)
      const error = JSON.parse(reply.stdout)
      expect(error.cniVersion).toBeString()
      expect(Number.isSafeInteger(error.code) && error.code >= 0).toBeTrue()
      expect(error.msg).toBeString()
      expect(error.msg).not.toBeEmpty()
    }),
    { numRuns: 500 },
  )
})
