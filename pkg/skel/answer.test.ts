import { expect, test } from "bun:test"
import { SyscallError } from "../libc/mod.ts"
import { CniError } from "../types/mod.ts"
import { errorReply } from "./answer.ts"
import { ask, attachment, oneAddress, Recorder } from "./plugin.fixture.ts"
import { type Call, definePlugin } from "./plugin.ts"
import { serve } from "./serve.ts"

function thrownBy(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return error
  }
}

const replyTo = (error: unknown) => JSON.parse(errorReply(error, "1.1.0").stdout)

test("an exhausted stack is told in our words, with what to do and where it was", () => {
  const forever = (depth: number): number => forever(depth + 1) + 1
  expect(replyTo(thrownBy(() => forever(0)))).toEqual({
    cniVersion: "1.1.0",
    code: 999,
    msg: "Cannot finish: not enough stack",
    details: expect.stringMatching(
      /^the configuration is nested too deeply, or the caller's RLIMIT_STACK is below 1 MiB; at .*forever pkg\/skel\/answer\.test\.ts:\d+/,
    ),
  })
})

test("so is memory that does not exist", () => {
  const reply = replyTo(thrownBy(() => new Uint8Array(2 ** 45)))
  expect(reply).toMatchObject({ code: 999, msg: "Cannot finish: not enough memory" })
  expect(reply.details).toStartWith("raise the limit for plugins: RLIMIT_AS, or its cgroup's memory.max; at ")
})

test("other errors of the same kind keep their words", () => {
  expect(replyTo(new RangeError("expected 1 to 2")).msg).toBe("expected 1 to 2")
  expect(replyTo(new Error("Out of memory")).msg).toBe("Out of memory")
})

test("what the kernel refuses is told in a sentence, without places in our sources, and what passes is code 11", () => {
  expect(replyTo(new SyscallError("open", 24, '"/proc/self/ns/net"'))).toEqual({
    cniVersion: "1.1.0",
    code: 999,
    msg: 'Cannot open "/proc/self/ns/net": Too many open files (EMFILE)',
  })
  const busy = Object.assign(new Error("list links: it kept changing (EINTR)"), { errno: "EINTR", willPass: true })
  expect(replyTo(busy)).toMatchObject({ code: 11, msg: "Cannot list links: it kept changing (EINTR)" })
  const gone = Object.assign(new Error('list addresses of "br0": ENODEV'), { errno: "ENODEV" })
  expect(replyTo(gone)).toMatchObject({
    msg: 'Cannot list addresses of "br0": ENODEV',
    details: "the interface was deleted or moved during the call",
  })
})

test.each([
  [1.5, 999],
  [-1, 999],
  [0, 0],
  [2 ** 53, 999],
])("a code is a whole number, 0 or more, else 999: %d is %d", (given, code) => {
  expect(replyTo(new CniError(given, "no"))).toEqual({ cniVersion: "1.1.0", code, msg: "no" })
})

test("what has no text and no place still says something", () => {
  expect(replyTo(new CniError(7, ""))).toEqual({ cniVersion: "1.1.0", code: 7, msg: "failed without a message" })
  expect(replyTo(Object.create(null))).toEqual({
    cniVersion: "1.1.0",
    code: 999,
    msg: "failed with an error without a message",
  })
  const lost = Object.assign(new Error("no"), { stack: undefined })
  expect(replyTo(lost)).toEqual({ cniVersion: "1.1.0", code: 999, msg: "no" })
  expect(replyTo("thrown")).toEqual({ cniVersion: "1.1.0", code: 999, msg: "thrown" })
})

test("what fails after the answer is logged: there is no second answer", () => {
  const { plugin } = new Recorder()
  const late = definePlugin({
    ...plugin,
    add(call) {
      call.answer(oneAddress)
      throw new Error("too late")
    },
  })
  const { stdout, exitCode, log } = ask(late, { CNI_COMMAND: "ADD" }, { cniVersion: "1.0.0", name: "lab" })
  expect({ exitCode, ips: JSON.parse(stdout).ips.length }).toEqual({ exitCode: 0, ips: oneAddress.ips?.length ?? 0 })
  expect(log).toEqual(["recorder: Cannot clean up after the answer: too late"])
})

test("a log that fails as well, after the answer, changes nothing of it", () => {
  const { plugin } = new Recorder()
  const add = (call: Call) => {
    call.answer(oneAddress)
    throw "too late"
  }
  const reply = (log: (line: string) => void) => {
    const stdin = () => new TextEncoder().encode('{"cniVersion":"1.0.0","name":"lab"}')
    return serve({ ...plugin, add }, { env: { ...attachment, CNI_COMMAND: "ADD" }, stdin, log })
  }
  const lines: string[] = []
  const answer = reply((line) => void lines.push(line))
  expect(answer.exitCode).toBe(0)
  expect(lines).toEqual(["recorder: Cannot clean up after the answer: too late"])
  expect(
    reply(() => {
      throw new Error("no log")
    }),
  ).toEqual(answer)
})

test("what was changed is kept once the answer is written, and not when it cannot be", () => {
  const order: string[] = []
  const undo = { keep: () => void order.push("keep") }
  const add = (call: Call) => call.answer(oneAddress, undo)
  const replyTo = (write: (text: string) => void) => {
    const stdin = () => new TextEncoder().encode('{"cniVersion":"1.0.0","name":"lab"}')
    const env = { ...attachment, CNI_COMMAND: "ADD" }
    return serve({ ...new Recorder().plugin, add }, { env, stdin, log() {}, write })
  }
  expect(replyTo(() => void order.push("write"))).toEqual({ stdout: "", exitCode: 0 })
  expect(order.splice(0)).toEqual(["write", "keep"])
  const refused = replyTo(() => {
    throw new Error("no space")
  })
  expect(order).toEqual([])
  expect(JSON.parse(refused.stdout)).toMatchObject({ code: 5, msg: "Cannot write the result to stdout" })
})

test.each([
  ["DEL", null],
  ["DEL", "done"],
  ["DEL", { after: 1 }],
  ["ADD", undefined],
] as const)("a plugin whose %s returns %j has not kept to the protocol", (verb, returned) => {
  const { plugin } = new Recorder()
  const strange = { ...plugin, [verb.toLowerCase()]: () => returned }
  expect(ask(strange, { CNI_COMMAND: verb }).json).toMatchObject({
    code: 999,
    msg: `Cannot answer ${verb}: plugin "recorder" returned a value that the protocol does not allow`,
  })
})
