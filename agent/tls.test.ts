import { expect, test } from "bun:test"
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { authority, client, otherAuthority, server } from "./certificates.fixture.ts"
import { StoreError } from "./store.ts"
import { Connections, FileText, TlsFiles } from "./tls.ts"

/** A directory that goes with the test, and writes into it. */
class Files implements Disposable {
  readonly #path = mkdtempSync(join(tmpdir(), "cni-tls-"))

  /** Puts a file in the place of the one before, as a rotation does. */
  write(name: string, text: string): string {
    const path = join(this.#path, name)
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
    return path
  }

  link(name: string, target: string): string {
    const path = join(this.#path, name)
    symlinkSync(target, `${path}.new`)
    renameSync(`${path}.new`, path)
    return path
  }

  [Symbol.dispose](): void {
    rmSync(this.#path, { recursive: true })
  }
}

test("a file is read again after it has changed, also by way of a link", async () => {
  using files = new Files()
  const token = new FileText(files.write("token", "one\n"))
  expect(await token.read()).toBe("one\n")
  files.write("token", "two\n")
  expect(await token.read()).toBe("two\n")
  // Kubernetes mounts secrets so: a link to a directory of today.
  const linked = new FileText(files.link("now", files.write("first", "three")))
  expect(await linked.read()).toBe("three")
  files.link("now", files.write("second", "four!"))
  expect(await linked.read()).toBe("four!")
})

test("a file that is missing is an error that names it", async () => {
  const error = await new FileText("/nonexistent/token").read().catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(StoreError)
  expect(String(error)).toContain('Cannot read "/nonexistent/token": ENOENT')
})

test("the material stays one object until a file has changed", async () => {
  using files = new Files()
  const tls = new TlsFiles({ ca: files.write("ca", authority) })
  const first = await tls.read()
  expect(await tls.read()).toBe(first)
  files.write("ca", otherAuthority)
  expect(await tls.read()).toEqual({ ca: otherAuthority })
})

test("a new certificate is used when its key has come, too", async () => {
  using files = new Files()
  const tls = new TlsFiles({ certificate: files.write("cert", client.cert), key: files.write("key", client.key) })
  expect(await tls.read()).toEqual({ cert: client.cert, key: client.key })
  files.write("cert", server.cert)
  expect(await tls.read()).toEqual({ cert: client.cert, key: client.key })
  files.write("key", server.key)
  expect(await tls.read()).toEqual({ cert: server.cert, key: server.key })
})

test("a certificate and a key that never fit together are an error that names both", async () => {
  using files = new Files()
  const tls = new TlsFiles({ certificate: files.write("cert", client.cert), key: files.write("key", server.key) })
  await expect(tls.read()).rejects.toThrow(/"[^"]*cert" and "[^"]*key": the key is of another certificate/)
  const torn = new TlsFiles({
    certificate: files.write("cert", client.cert.slice(0, 90)),
    key: files.write("key", client.key),
  })
  await expect(torn.read()).rejects.toThrow("Cannot use the certificate and key")
})

test("a connection is made with the newest files: a server is trusted after its authority was written", async () => {
  using files = new Files()
  let requests = 0
  await using served = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: { ...server, ca: authority, requestCert: true, rejectUnauthorized: true },
    fetch: () => {
      requests++
      return new Response("served")
    },
  })
  const [certificate, key] = [files.write("cert", client.cert), files.write("key", client.key)]
  const tls = new TlsFiles({ ca: files.write("ca", otherAuthority), certificate, key })
  using connections = new Connections(tls)
  const url = `https://127.0.0.1:${served.port}/`
  const get = async () => (await connections.fetch(url, {})).text()
  expect(await get().catch((error: { code?: string }) => error.code)).toBe("SELF_SIGNED_CERT_IN_CHAIN")
  expect(requests).toBe(0) // the server is looked at before anything is sent
  files.write("ca", authority)
  expect(await get()).toBe("served")
  files.write("ca", otherAuthority)
  expect(await get().catch(() => "refused")).toBe("refused")
  expect(requests).toBe(1)
})

test("no proxy of the environment is asked: a store is reached directly", async () => {
  await using store = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("the store") })
  await using proxy = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("a proxy") })
  const before = process.env.http_proxy
  process.env.http_proxy = proxy.url.href
  try {
    using connections = new Connections(new TlsFiles())
    expect(await (await fetch(store.url.href)).text()).toBe("a proxy")
    expect(await (await connections.fetch(store.url.href, {})).text()).toBe("the store")
  } finally {
    if (before === undefined) delete process.env.http_proxy
    else process.env.http_proxy = before
  }
})
