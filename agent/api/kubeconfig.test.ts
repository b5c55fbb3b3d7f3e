import { afterAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseKubeconfig, readKubeconfig } from "./kubeconfig.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-kubeconfig-"))
afterAll(() => rmSync(directory, { recursive: true }))

const config = (cluster: string, user: string) => `apiVersion: v1
kind: Config
current-context: here
contexts:
  - { name: other, context: { cluster: none, user: none } }
  - { name: here, context: { cluster: c, user: u } }
clusters:
  - name: c
    cluster: ${cluster}
users:
  - name: u
    user: ${user}
`
const server = 'server: "https://192.0.2.1:6443/"'

describe("a kubeconfig", () => {
  test("has certificates inline, in base64", async () => {
    const data = (text: string) => Buffer.from(text).toString("base64")
    const user = `{ client-certificate-data: ${data("cert")}, client-key-data: ${data("key")} }`
    const connection = parseKubeconfig(config(`{ ${server}, certificate-authority-data: ${data("ca")} }`, user), "/k")
    expect(connection.server).toBe("https://192.0.2.1:6443")
    expect(await connection.ca?.read()).toBe("ca")
    expect(await connection.certificate?.read()).toBe("cert")
    expect(await connection.key?.read()).toBe("key")
    expect(connection.token).toBeUndefined()
  })

  test("names files, which are relative to its own directory and are read again when they have changed", async () => {
    writeFileSync(join(directory, "ca.crt"), "ca")
    writeFileSync(join(directory, "token"), "first")
    const path = join(directory, "config")
    writeFileSync(path, config(`{ ${server}, certificate-authority: ca.crt }`, `{ tokenFile: ${directory}/token }`))
    const connection = readKubeconfig(path)
    expect(await connection.ca?.read()).toBe("ca")
    expect(await connection.token?.read()).toBe("first")
    writeFileSync(join(directory, "token"), "the second")
    expect(await connection.token?.read()).toBe("the second")
  })

  test("may be JSON, with a token in it", async () => {
    const json = {
      "current-context": "a",
      contexts: [{ name: "a", context: { cluster: "a", user: "a" } }],
      clusters: [{ name: "a", cluster: { server: "http://127.0.0.1:8001" } }],
      users: [{ name: "a", user: { token: "secret" } }],
    }
    const connection = parseKubeconfig(JSON.stringify(json), "/k")
    expect(connection.server).toBe("http://127.0.0.1:8001")
    expect(await connection.token?.read()).toBe("secret")
  })

  test.each([
    ["exec", config(`{ ${server} }`, "{ exec: { command: aws } }"), '"exec" is not supported'],
    ["a password", config(`{ ${server} }`, "{ username: a, password: b }"), '"username" is not supported'],
    [
      "no check of the certificate",
      config(`{ ${server}, insecure-skip-tls-verify: true }`, "{}"),
      '"insecure-skip-tls-verify" is not supported',
    ],
    ["no server", config("{}", "{}"), '"" is not a URL'],
    ["a server that is no URL", config('{ server: "192.0.2.1" }', "{}"), '"192.0.2.1" is not a URL'],
    ["no current context", "{}", 'it has no "current-context"'],
    ["an unknown context", "current-context: there", 'it has no context "there"'],
    ["a list", "[1]", "it is not an object"],
    ["a token that is a number", config(`{ ${server} }`, "{ token: 5 }"), '"token" is not a string'],
  ])("with %s is refused with code 7", (_, text, reason) => {
    expect(() => parseKubeconfig(text, "/k")).toThrow(
      expect.objectContaining({ code: 7, message: expect.stringContaining(`Cannot use kubeconfig "/k": ${reason}`) }),
    )
  })

  test("that is not YAML, or names a file that does not exist, is refused with code 7", () => {
    expect(() => parseKubeconfig("{", "/k")).toThrow(/it is not YAML/)
    expect(() => readKubeconfig(join(directory, "nothing"))).toThrow(/it cannot be read/)
  })
})
