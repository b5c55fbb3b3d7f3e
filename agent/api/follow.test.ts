import { afterEach, expect, test } from "bun:test"
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { waitFor } from "../../integration/lab/mod.ts"
import { Nodes } from "../nodes.ts"
import { authority, otherAuthority, server } from "../testing/certificates.fixture.ts"
import { FakeApi, nodeObject } from "../testing/fake-api.ts"
import { ApiClient } from "./client.ts"
import { type Connection, SecretFile, serviceAccount } from "./connection.ts"
import { follow } from "./follow.ts"

const scenes: AsyncDisposableStack[] = []
afterEach(async () => {
  for (const scene of scenes.splice(0)) await scene.disposeAsync()
})

/** Creates a fake API server, and the Nodes that a follower receives from it. */
function scene(connection: Partial<Connection> = {}, options: ConstructorParameters<typeof FakeApi>[0] = {}) {
  const stack = new AsyncDisposableStack()
  scenes.push(stack)
  const api = stack.use(new FakeApi(options))
  const faults: (string | undefined)[] = []
  const nodes = new Nodes(
    "node-1",
    () => {},
    (fault) => faults.push(fault),
  )
  const end = new AbortController()
  const client = stack.use(new ApiClient({ server: api.url, ...connection }))
  const names = () => [...(nodes.known?.keys() ?? [])].sort()
  return {
    api,
    faults,
    nodes,
    names,
    start() {
      const following = follow(client, nodes, end.signal)
      stack.defer(async () => {
        end.abort()
        await following
      })
    },
    has: (...wanted: string[]) =>
      waitFor(async () => Bun.deepEquals(names(), wanted), `Nodes ${wanted}; it has ${names()}, faults: ${faults}`),
    faulty: (text: string | RegExp) =>
      waitFor(async () => faults.some((fault) => fault?.match(text)), `the fault ${text}; there are: ${faults}`),
  }
}

const put = (api: FakeApi, ...names: string[]) => {
  for (const name of names) api.put(nodeObject(name, ["10.244.1.0/24", "FD00::0:1:0/112"], ["192.0.2.1", "fd99::1"]))
}

test("a list of many pages, then each change; what is kept are ranges and internal addresses", async () => {
  const { api, nodes, start, names } = scene()
  put(api, ...Array.from({ length: 250 }, (_, at) => `node-${at}`))
  start()
  await waitFor(async () => names().length === 250, "all Nodes")
  expect(nodes.known?.get("node-7")).toEqual({
    ranges: ["10.244.1.0/24", "fd00::1:0/112"],
    addresses: ["192.0.2.1", "fd99::1"],
  })
  expect(api.requests.filter((path) => path.includes("limit=50")).length).toBe(5)
  put(api, "other")
  api.remove("node-0")
  await waitFor(async () => nodes.known?.has("other") && !nodes.known.has("node-0"), "the changes")
})

test("bookmarks move a watch on: it is opened again where it was, also when all before that is forgotten", async () => {
  const { api, start, has } = scene()
  put(api, "one")
  start()
  await has("one")
  await waitFor(async () => api.requests.some((path) => path.includes("watch=1")), "a watch")
  api.forget() // after status 410, the follower reads all objects again
  put(api, "two")
  await has("one", "two")
  const lists = () => api.requests.filter((path) => path.includes("limit=")).length
  const before = lists()
  await waitFor(async () => api.requests.filter((path) => path.includes("watch=1")).length >= 2, "another watch")
  api.bookmark()
  api.endWatches()
  put(api, "three")
  await has("one", "three", "two")
  expect(lists()).toBe(before)
})

test("a server without time is asked again when it says (429)", async () => {
  const { api, start, has, faults } = scene()
  put(api, "one")
  api.troubles = { overload: 2, retryAfterS: 0 }
  start()
  await has("one")
  expect(faults).toEqual([undefined])
})

test("an answer that is empty, of another kind, or an error removes nothing, and the reason is told from the first one on", async () => {
  const { api, start, has, faulty, names } = scene()
  put(api, "one")
  start()
  await has("one")
  const again = async (troubles: FakeApi["troubles"], fault: string | RegExp) => {
    api.troubles = troubles
    api.forget()
    await faulty(fault)
    expect(names()).toEqual(["one"])
  }
  await again({ empty: true }, "returned no Node objects")
  await again({ empty: false, wrong: '{"items":[]}' }, "did not return a NodeList")
  await again({ down: true }, /HTTP 503: the server is currently unable/)
  await again(
    { tokens: ["x"] },
    /HTTP 401: Unauthorized; the token is missing, has expired, or belongs to another cluster/,
  )
  await again({ forbidden: [""] }, /HTTP 403: nodes is forbidden: .*; the account needs get, list and watch of nodes/)
  api.troubles = {}
  put(api, "two")
  await has("one", "two")
})

test("a token and a CA that are replaced in their files are used from the next request on", async () => {
  const directory = mkdtempSync(join(tmpdir(), "agent-account-"))
  try {
    const replace = (name: string, text: string) => {
      writeFileSync(join(directory, `.${name}`), text)
      renameSync(join(directory, `.${name}`), join(directory, name))
    }
    replace("ca.crt", otherAuthority)
    const [ca, token] = [new SecretFile(join(directory, "ca.crt")), new SecretFile(join(directory, "token"))]
    const tls = { cert: server.cert, key: server.key }
    const { api, start, has, faulty } = scene({ ca, token }, { tls })
    api.troubles = { tokens: ["second"] }
    put(api, "one")
    start()
    await faulty(/Cannot read ".*\/token": ENOENT/)
    replace("token", "first\n")
    await faulty(/certificate/)
    replace("ca.crt", authority)
    await faulty(/HTTP 401/)
    replace("token", "second\n")
    await has("one")
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test("the service account of a pod, and what is said outside of one", () => {
  const env = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" }
  expect(serviceAccount(env).server).toBe("https://[fd00::1]:443")
  expect(() => serviceAccount({})).toThrow("outside a pod, give --kubeconfig")
})
