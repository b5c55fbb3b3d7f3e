import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileDescriptor, Open, Poll, poll, watchClosing } from "./mod.ts"

test("a watch is readable once somebody has closed the file, and not before", () => {
  const directory = mkdtempSync(join(tmpdir(), "libc-watch-"))
  try {
    const path = join(directory, "file")
    writeFileSync(path, "")
    using watch = watchClosing(path)
    const file = FileDescriptor.open(path, Open.ReadOnly)
    expect(poll(watch.fd, Poll.In, 0)).toBe(false)
    file[Symbol.dispose]()
    expect(poll(watch.fd, Poll.In, 0)).toBe(true)
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test("a file that is not there cannot be watched", () => {
  expect(() => watchClosing("/nonexistent/file")).toThrow("ENOENT")
})
