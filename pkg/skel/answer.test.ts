import { expect, test } from "bun:test"
import { SyscallError } from "../libc/mod.ts"
import { errorReply, sourceFrames } from "./answer.ts"
import { ask, oneAddress, Recorder } from "./plugin.fixture.ts"
import { definePlugin } from "./plugin.ts"

/** What the engine throws. */
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
    details: expect.stringMatching(/RLIMIT_STACK.*; at .*forever pkg\/skel\/answer\.test\.ts:\d+/),
  })
})

test("so is memory that there is not", () => {
  const reply = replyTo(thrownBy(() => new Uint8Array(2 ** 45)))
  expect(reply).toMatchObject({ code: 999, msg: "Cannot finish: not enough memory" })
  expect(reply.details).toContain("RLIMIT_AS")
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
    details: expect.stringContaining("gone meanwhile"),
  })
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

test("frames are those of our sources, the innermost first, and four at most unless another limit is given", () => {
  const deep = (depth: number): number => {
    if (depth === 0) throw new Error("here")
    return deep(depth - 1) + 1
  }
  const error = thrownBy(() => deep(9))
  expect(sourceFrames(error)).toHaveLength(4)
  expect(sourceFrames(error, 2)).toHaveLength(2)
  for (const frame of sourceFrames(error)) expect(frame).toMatch(/^deep pkg\/skel\/answer\.test\.ts:\d+$/)
  expect(sourceFrames("no error")).toEqual([])
})
