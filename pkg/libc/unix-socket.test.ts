import { expect, test } from "bun:test"
import { connectTo } from "./unix-socket.ts"

test("a path without a socket, or that is too long, is an error with the path", () => {
  expect(() => connectTo("/no/such/socket")).toThrow('"/no/such/socket": No such file or directory (ENOENT)')
  expect(() => connectTo("/dev/null")).toThrow("ECONNREFUSED")
  expect(() => connectTo(`/${"x".repeat(200)}`)).toThrow("ENAMETOOLONG")
})
