import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { authority, client, server } from "../../certificates.fixture.ts"
import { Cluster, errorOf, make } from "./cluster.fixture.ts"
import { FakeEtcd, FakeGateway } from "./fake-gateway.fixture.ts"

const authenticate = "/v3/auth/authenticate"

/** A cluster with users, and a store of one of them. */
async function withUser(act: (cluster: Cluster, user: { username: string; passwordFile: string }) => Promise<void>) {
  const directory = mkdtempSync(join(tmpdir(), "cni-etcd-"))
  try {
    await using cluster = new Cluster()
    cluster.etcd.tokens = new Set()
    const passwordFile = join(directory, "password")
    writeFileSync(passwordFile, "secret\n")
    await act(cluster, { username: "agent", passwordFile })
  } finally {
    rmSync(directory, { recursive: true })
  }
}

test("a user's token is asked for once, and sent with each request", () =>
  withUser(async (cluster, user) => {
    const store = cluster.store(user)
    await Promise.all([make(store, 1), make(store, 2), store.list("block")])
    expect(cluster.first.count(authenticate)).toBe(1)
    expect(cluster.first.requests[0]?.body).toEqual({ name: "agent", password: "secret" })
    const tokens = cluster.first.requests.slice(1).map(({ token }) => token)
    expect(new Set(tokens)).toEqual(cluster.etcd.tokens ?? new Set())
  }))

test("a token that is no longer known is asked for anew, and the request is sent again", () =>
  withUser(async (cluster, user) => {
    const store = cluster.store(user)
    await make(store, 1)
    cluster.etcd.tokens?.clear()
    expect(await make(store, 2)).toBeDefined()
    expect(cluster.first.count(authenticate)).toBe(2)
  }))

test("a new password is read from its file", () =>
  withUser(async (cluster, user) => {
    const store = cluster.store(user)
    await make(store, 1)
    cluster.etcd.tokens?.clear()
    cluster.etcd.password = "changed"
    const error = await errorOf(make(store, 2))
    expect(error.message).toContain(
      'the user "agent" gets no token: authentication failed, invalid user ID or password',
    )
    expect(error.outcome).toBe("refused")
    writeFileSync(user.passwordFile, "changed")
    expect(await make(store, 2)).toBeDefined()
  }))

test("authentication that is enabled later is taken up, and one that is not enabled is no error", () =>
  withUser(async (cluster, user) => {
    const tokens = cluster.etcd.tokens
    cluster.etcd.tokens = undefined
    const store = cluster.store(user)
    expect(await make(store, 1)).toBeDefined()
    cluster.etcd.tokens = tokens
    expect(await make(store, 2)).toBeDefined()
  }))

test("a change whose token could not be asked for was not sent: refused", () =>
  withUser(async (cluster, user) => {
    cluster.first.odd = (path) => (path === authenticate ? new Response("", { status: 503 }) : undefined)
    const error = await errorOf(make(cluster.store(user)))
    expect(error.outcome).toBe("refused")
    expect(cluster.first.count("/v3/kv/txn")).toBe(0)
  }))

test("a password file that is missing is named", () =>
  withUser(async (cluster, user) => {
    const error = await errorOf(make(cluster.store({ ...user, passwordFile: "/nonexistent/password" })))
    expect([error.message, error.outcome]).toEqual([expect.stringContaining('"/nonexistent/password"'), "refused"])
  }))

test("a watch has a token, too, and a new one after the old one is no longer known", () =>
  withUser(async (cluster, user) => {
    const store = cluster.store(user)
    await make(store, 1)
    cluster.etcd.tokens?.clear()
    const ended = new AbortController()
    for await (const { type } of store.watch("block", ended.signal)) {
      if (type === "all") await make(store, 2)
      else ended.abort()
    }
    expect(cluster.first.count(authenticate)).toBe(2)
  }))

test("members are asked by TLS, with the client's certificate; a server of another authority gets no request", async () => {
  const directory = mkdtempSync(join(tmpdir(), "cni-etcd-"))
  const file = (name: string, text: string) => {
    writeFileSync(join(directory, name), text)
    return join(directory, name)
  }
  const etcd = new FakeEtcd()
  try {
    await using cluster = new Cluster(0)
    await using gateway = new FakeGateway(etcd, {
      tls: { ...server, ca: authority, requestCert: true, rejectUnauthorized: true },
    })
    const endpoints = [`https://127.0.0.1:${gateway.port}`]
    const tls = { ca: file("ca", authority), certificate: file("cert", client.cert), key: file("key", client.key) }
    expect(await make(cluster.store({ endpoints, tls }), 1)).toBeDefined()
    const strange = await errorOf(make(cluster.store({ endpoints }), 2))
    expect(strange.message).toContain("its certificate is not accepted (SELF_SIGNED_CERT_IN_CHAIN)")
    expect(strange.outcome).toBe("refused")
    await errorOf(make(cluster.store({ endpoints, tls: { ca: tls.ca } }), 3))
    expect([...etcd.keys.keys()]).toEqual(["/cni/block/pods/10.64.1.0/26"])
    expect(gateway.requests).toHaveLength(1)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
