import { expect, test } from "bun:test"
import { redact, redactText } from "./secrets.ts"

test("secrets are taken out of a value, however deep, by the names of keys", () => {
  const secret = [
    "password",
    "Secret",
    "authToken",
    "credentials",
    "oauth",
    "privateKey",
    "apikey",
    "API_KEY",
    "psk",
    "certificate",
  ]
  const of = (value: string) => Object.fromEntries(secret.map((key) => [key, value]))
  expect(redact({ ...of("x"), type: "x", list: [{ token: { a: 1 } }, "token"], n: 5, none: null })).toEqual({
    ...of("(removed)"),
    type: "x",
    list: [{ token: "(removed)" }, "token"],
    n: 5,
    none: null,
  })
})

test.each([
  ["https://user:pass@host/x?y", "https://(removed)@host/x?y"],
  ["http://user:p@ss/word@host:8080", "http://(removed)@host:8080"],
  ["grpc+tls://:secret@[fd00::1]:9", "grpc+tls://(removed)@[fd00::1]:9"],
  ["//token@host", "//(removed)@host"],
  ["see https://a:b@h and http://c:d@i", "see https://(removed)@h and http://(removed)@i"],
  ["https://host:8080/path", "https://host:8080/path"],
  ["root@host, a@b", "root@host, a@b"],
])("users and passwords are taken out of URLs: %s", (text, expected) => {
  expect(redactText(text)).toBe(expected)
  expect(redact({ a: [text] })).toEqual({ a: [expected] })
})
