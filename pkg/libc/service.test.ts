import { expect, test } from "bun:test"
import { join } from "node:path"
import { engine } from "../engine/mod.ts"
import { FileDescriptor, Poll, type PollRequest, pollAll } from "./mod.ts"

/** Opens a pipe and returns the read end and the write end. */
function pipe(): [FileDescriptor, FileDescriptor] {
  const pair = new Int32Array(2)
  engine.pipe2(pair, 0o2000000)
  return [new FileDescriptor(pair[0] as never), new FileDescriptor(pair[1] as never)]
}

// POLLIN 1, POLLOUT 4, POLLHUP 16, POLLNVAL 32, <asm-generic/poll.h>
test("of several descriptors each is told by itself what is so of it", () => {
  const [reading, writing] = pipe()
  using _ = reading
  const both: PollRequest[] = [
    { fd: reading.fd, events: Poll.In },
    { fd: writing.fd, events: Poll.Out },
  ]
  const backwards = [...both].reverse()
  expect([...pollAll(both, 0)]).toEqual([0, 4])
  expect([...pollAll(backwards, undefined)]).toEqual([4, 0])
  engine.write(writing.fd, Uint8Array.of(1))
  expect([...pollAll(both, 0)]).toEqual([1, 4])
  writing[Symbol.dispose]()
  expect([...pollAll(both, 1e12)]).toEqual([17, 32])
  expect([...pollAll([], -1)]).toEqual([])
})

test("limits are those of the process", () => {
  const script = `
    import { readTextFile, setDescriptorLimit } from ${JSON.stringify(join(import.meta.dir, "mod.ts"))}
    setDescriptorLimit(99, 101)
    console.log(readTextFile("/proc/self/limits").match(/Max open files +.*/)[0].replace(/ +/g, " ").trim())`
  const child = Bun.spawnSync([process.execPath, "-e", script])
  expect(child.stdout.toString()).toBe("Max open files 99 101 files\n")
})
