import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { engine } from "../engine/mod.ts"
import { read, write } from "./descriptor.ts"
import { acceptConnection, connectTo, listenAt } from "./unix-socket.ts"

const directory = mkdtempSync(join(tmpdir(), "s-"))
afterAll(() => rmSync(directory, { recursive: true }))

test("a path without a socket, or that is too long, is an error with the path", () => {
  expect(() => connectTo("/no/such/socket")).toThrow('"/no/such/socket": No such file or directory (ENOENT)')
  expect(() => connectTo("/dev/null")).toThrow("ECONNREFUSED")
  const long = `/${"x".repeat(200)}`
  for (const use of [connectTo, listenAt])
    expect(() => use(long)).toThrow(`bind "${long}": File name too long (ENAMETOOLONG)`)
})

test("what one end writes the other reads, and no call waits", () => {
  const path = join(directory, "talk")
  using server = listenAt(path)
  expect(() => acceptConnection(server.fd)).toThrow("EAGAIN")
  using client = connectTo(path)
  using accepted = acceptConnection(server.fd)
  const into = new Uint8Array(9)
  for (const { fd } of [client, accepted]) expect(() => read(fd, into)).toThrow("EAGAIN")
  write(client.fd, Uint8Array.of(1, 2))
  write(accepted.fd, Uint8Array.of(3))
  expect([read(accepted.fd, into), into[0], into[1]]).toEqual([2, 1, 2])
  expect([read(client.fd, into), into[0]]).toEqual([1, 3])
  expect(() => listenAt(path)).toThrow(`bind "${path}": Address already in use (EADDRINUSE)`)
})

// struct sockaddr_un has room for a path of 108 bytes, including the zero byte at its end, unix(7).
test("a path of 107 bytes is a socket's, and one of 108 is too long", () => {
  const path = (length: number) => join(directory, "x".repeat(length - directory.length - 1))
  using server = listenAt(path(107))
  using client = connectTo(path(107))
  expect(server.fd).not.toBe(client.fd)
  expect(() => listenAt(path(108))).toThrow("ENAMETOOLONG")
})

test("as many may wait as the server says, and one more", () => {
  const path = join(directory, "queue")
  using server = listenAt(path, 1)
  const waiting = [connectTo(path), connectTo(path)]
  expect(() => connectTo(path)).toThrow(`connect "${path}": Resource temporarily unavailable (EAGAIN)`)
  for (const client of waiting) client[Symbol.dispose]()
  expect(server.fd).toBeGreaterThan(0)
})

test("a socket that cannot listen is told by its path, and closed", () => {
  const path = join(directory, "deaf")
  const { listen } = engine
  const open = () => readdirSync("/proc/self/fd").length
  const before = open()
  Object.assign(engine, { listen: () => -22 })
  try {
    expect(() => listenAt(path)).toThrow(`listen "${path}": Invalid argument (EINVAL)`)
  } finally {
    Object.assign(engine, { listen })
  }
  expect(open()).toBe(before)
})
