import { expect, test } from "bun:test"
import { isErrno } from "../libc/mod.ts"
import { NetlinkError } from "./error.ts"

test("an error says what was refused, and the kernel's reason in its own words", () => {
  const error = new NetlinkError('create bridge "cni0"', 95, "Unknown device type")
  expect(error.message).toBe('create bridge "cni0": Unknown device type (EOPNOTSUPP)')
  expect(error).toMatchObject({ name: "NetlinkError", errno: "EOPNOTSUPP", words: "Unknown device type" })
})

test("without words it has the errno alone", () => {
  expect(new NetlinkError("list links", 1).message).toBe("list links: EPERM")
  expect(new NetlinkError("list links", "EAGAIN").message).toBe("list links: EAGAIN")
})

test("isErrno knows it like an error of a system call", () => {
  expect(isErrno(new NetlinkError("create link", 17), "EEXIST")).toBe(true)
})
