import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileDescriptor, Open, Poll, poll, read } from "./descriptor.ts"
import { watchClosing } from "./watch.ts"

test("a watch is quiet until somebody closes the file, whatever they did with it", () => {
  const directory = mkdtempSync(join(tmpdir(), "libc-watch-"))
  try {
    const path = join(directory, "file")
    writeFileSync(path, "")
    using watch = watchClosing(path)
    {
      using reader = FileDescriptor.open(path, Open.ReadOnly)
      expect(poll(watch.fd, Poll.In, 0)).toBe(false)
      expect(reader.fd).not.toBe(watch.fd)
    }
    expect(poll(watch.fd, Poll.In, 1000)).toBe(true)
    expect(read(watch.fd, new Uint8Array(1024))).toBe(16) // struct inotify_event without a name, inotify(7)
    expect(poll(watch.fd, Poll.In, 0)).toBe(false)
    Bun.spawnSync(["sh", "-c", 'echo text > "$1"', "sh", path])
    expect(poll(watch.fd, Poll.In, 1000)).toBe(true)
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test("what is not there cannot be watched", () => {
  expect(() => watchClosing("/dev/null/x")).toThrow('inotify_add_watch "/dev/null/x": Not a directory (ENOTDIR)')
  expect(() => watchClosing("/dev/null\0")).toThrow("EINVAL")
})
