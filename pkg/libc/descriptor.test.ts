import { expect, test } from "bun:test"
import { readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { close, FileDescriptor, Open, open, Poll, poll, read, write, writeAll } from "./descriptor.ts"
import { openNetlink } from "./socket.ts"

test("what is opened is not handed on to programs that this one starts", () => {
  using file = FileDescriptor.open("/dev/null", Open.ReadOnly)
  const [, flags = ""] = /flags:\s+(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${file.fd}`, "utf8")) ?? []
  expect(Number.parseInt(flags, 8) & Open.CloseOnExec).toBe(Open.CloseOnExec)
})

test("open says what it could not open and why", () => {
  expect(() => open("/dev/null/x", Open.ReadOnly)).toThrow('open "/dev/null/x": Not a directory (ENOTDIR)')
  expect(() => open("/dev/null\0", Open.ReadOnly)).toThrow("EINVAL")
})

test("a descriptor is closed at the end of its scope", () => {
  const file = FileDescriptor.open("/dev/zero", Open.ReadOnly)
  expect(read(file.fd, new Uint8Array(8))).toBe(8)
  file[Symbol.dispose]()
  expect(() => read(file.fd, new Uint8Array(8))).toThrow(`read descriptor ${file.fd}: Bad file descriptor (EBADF)`)
})

test("disposing twice does not close the file that got the number since", () => {
  const first = FileDescriptor.open("/dev/null", Open.ReadOnly)
  first[Symbol.dispose]()
  using second = FileDescriptor.open("/dev/zero", Open.ReadOnly)
  first[Symbol.dispose]()
  expect(read(second.fd, new Uint8Array(1))).toBe(1)
})

test("reading at the end gives 0 bytes, and writing says how many were taken", () => {
  using file = FileDescriptor.open("/dev/null", Open.ReadWrite)
  expect(read(file.fd, new Uint8Array(8))).toBe(0)
  expect(write(file.fd, new Uint8Array(5))).toBe(5)
  expect(() => writeAll(file.fd, new Uint8Array(0))).not.toThrow()
})

test("writing to a full device says ENOSPC", () => {
  using file = FileDescriptor.open("/dev/full", Open.WriteOnly)
  expect(() => writeAll(file.fd, new Uint8Array(1))).toThrow("No space left on device (ENOSPC)")
})

test("a pipe opened non-blocking says EAGAIN instead of waiting", () => {
  const path = join(tmpdir(), `libc-pipe-${crypto.randomUUID()}`)
  Bun.spawnSync(["mkfifo", path])
  try {
    using pipe = FileDescriptor.open(path, Open.ReadWrite | Open.NonBlocking)
    expect(poll(pipe.fd, Poll.In, 0)).toBe(false)
    expect(() => read(pipe.fd, new Uint8Array(1))).toThrow("Resource temporarily unavailable (EAGAIN)")
    writeAll(pipe.fd, new Uint8Array(60_000))
    expect(poll(pipe.fd, Poll.In, 0)).toBe(true)
    expect(read(pipe.fd, new Uint8Array(65_536))).toBe(60_000)
  } finally {
    rmSync(path)
  }
})

test("poll is true at once for what is ready", () => {
  using file = FileDescriptor.open("/dev/zero", Open.ReadOnly)
  expect(poll(file.fd, Poll.In, 0)).toBe(true)
})

test("poll is true for a descriptor that is not open: using it tells what is wrong", () => {
  const fd = open("/dev/null", Open.ReadOnly)
  close(fd)
  expect(poll(fd, Poll.In, 1000)).toBe(true)
})

test("poll is false when the time is over, not sooner", () => {
  using silent = new FileDescriptor(openNetlink(0))
  const start = performance.now()
  expect(poll(silent.fd, Poll.In, 40)).toBe(false)
  expect(performance.now() - start).toBeGreaterThanOrEqual(39)
  expect(poll(silent.fd, Poll.In, -5)).toBe(false)
})

test("a signal neither shortens nor lengthens the wait of poll", async () => {
  let signals = 0
  process.on("SIGUSR2", () => signals++) // never removed: a late signal would end the process
  const sender = Bun.spawn(["sh", "-c", `for _ in 1 2 3 4 5; do sleep 0.05; kill -USR2 ${process.pid}; done`])
  try {
    using silent = new FileDescriptor(openNetlink(0))
    const start = performance.now()
    expect(poll(silent.fd, Poll.In, 200)).toBe(false)
    const elapsed = performance.now() - start
    expect(elapsed).toBeGreaterThanOrEqual(199)
    expect(elapsed).toBeLessThan(50_000)
  } finally {
    await sender.exited
  }
  while (signals === 0) await Bun.sleep(1) // all signals have been delivered; the listener is called soon
})
