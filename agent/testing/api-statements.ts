import { describe, expect, test } from "bun:test"
import { type ApiUnderTest, ask, blockObject, type RawAnswer, setNodes } from "./kubernetes-stores.ts"

const blocks = "/apis/cni-agent.internal/v1/blocks"
const name = "pods-10.64.3.0-26"
const prefix = "10.64.3.0/26"

/** What a test takes of an API server: an empty one, and how to forget its history. */
export interface ApiForStatements extends ApiUnderTest, AsyncDisposable {
  compact(): Promise<void>
}

function expectInvalid({ status, body }: RawAnswer, reason: string): void {
  expect([status, body.reason, body.message]).toEqual([422, "Invalid", expect.stringContaining(reason)])
}

/** What a kube-apiserver answers, as cases for `bun test`: the fake is held to what the real one has shown. */
export function testApiStatements(what: string, start: () => Promise<ApiForStatements>): void {
  const statement = (title: string, work: (api: ApiForStatements) => Promise<void>) =>
    test(title, async () => {
      await using api = await start()
      await work(api)
    }, 120_000)

  describe(`${what}:`, () => {
    statement("a name is created once: 201, then 409 AlreadyExists", async (api) => {
      const first = await ask(api, "POST", blocks, { body: blockObject(prefix) })
      expect([first.status, first.body.metadata.name, first.body.metadata.generation]).toEqual([201, name, 1])
      const second = await ask(api, "POST", blocks, { body: blockObject(prefix, { nonce: "other" }) })
      expect([second.status, second.body.reason, second.body.details.name]).toEqual([409, "AlreadyExists", name])
    })

    statement(
      "of 50 creates of one name at the same time one is answered with 201, the others with 409",
      async (api) => {
        const answers = await Promise.all(
          Array.from({ length: 50 }, (_, at) =>
            ask(api, "POST", blocks, { body: blockObject(prefix, { nonce: `${at}` }) }),
          ),
        )
        const count = (status: number) => answers.filter((answer) => answer.status === status).length
        expect([count(201), count(409)]).toEqual([1, 49])
      },
    )

    statement(
      "PUT replaces the version that is named: 200, then 409 Conflict, and 422 without a version",
      async (api) => {
        const { body: made } = await ask(api, "POST", blocks, { body: blockObject(prefix) })
        const { uid, resourceVersion } = made.metadata
        const put = (nonce: string, metadata: object) =>
          ask(api, "PUT", `${blocks}/${name}`, { body: blockObject(prefix, { nonce }, metadata) })
        const first = await put("second", { uid, resourceVersion })
        expect([first.status, first.body.spec.nonce, first.body.metadata.generation]).toEqual([200, "second", 2])
        const stale = await put("third", { uid, resourceVersion })
        expect([stale.status, stale.body.reason]).toEqual([409, "Conflict"])
        const other = await put("third", {
          uid: crypto.randomUUID(),
          resourceVersion: first.body.metadata.resourceVersion,
        })
        expect([other.status, other.body.reason]).toEqual([409, "Conflict"])
        expect((await put("third", { uid })).status).toBe(422)
      },
    )

    statement("PUT of what is there already changes nothing, its version included", async (api) => {
      const { body: made } = await ask(api, "POST", blocks, { body: blockObject(prefix) })
      const same = await ask(api, "PUT", `${blocks}/${name}`, { body: made })
      expect([same.status, same.body.metadata.resourceVersion]).toEqual([200, made.metadata.resourceVersion])
    })

    statement("PUT of an object that is not there is refused with 404, with a UID and without", async (api) => {
      for (const more of [{}, { uid: crypto.randomUUID() }]) {
        const body = blockObject(prefix, {}, { resourceVersion: "1", ...more })
        const answer = await ask(api, "PUT", `${blocks}/${name}`, { body })
        expect([answer.status, answer.body.reason, answer.body.details.name]).toEqual([404, "NotFound", name])
      }
    })

    statement("DELETE compares UID and version: 409 for others, 200, then 404", async (api) => {
      const { body: made } = await ask(api, "POST", blocks, { body: blockObject(prefix) })
      const { uid, resourceVersion } = made.metadata
      const remove = (preconditions: object) =>
        ask(api, "DELETE", `${blocks}/${name}`, { body: { apiVersion: "v1", kind: "DeleteOptions", preconditions } })
      const otherUid = await remove({ uid: crypto.randomUUID(), resourceVersion })
      expect([otherUid.status, otherUid.body.reason]).toEqual([409, "Conflict"])
      const otherVersion = await remove({ uid, resourceVersion: "1" })
      expect([otherVersion.status, otherVersion.body.reason]).toEqual([409, "Conflict"])
      const done = await remove({ uid, resourceVersion })
      expect([done.status, done.body.status]).toEqual([200, "Success"])
      const again = await remove({ uid, resourceVersion })
      expect([again.status, again.body.reason, again.body.details.name]).toEqual([404, "NotFound", name])
    })

    statement(
      "a block stays that of one pool and prefix, and its epoch never goes back: 422 with the reason",
      async (api) => {
        const { body: made } = await ask(api, "POST", blocks, { body: blockObject(prefix, { epoch: 2 }) })
        const put = (changes: object) =>
          ask(api, "PUT", `${blocks}/${name}`, { body: { ...made, spec: { ...made.spec, ...changes } } })
        const stays = "the object of a block is that of one prefix"
        expectInvalid(await put({ prefix: "10.64.3.64/26" }), stays)
        expectInvalid(await put({ pool: "others" }), stays)
        expectInvalid(await put({ epoch: 1 }), "the epoch of a block never goes back")
        expect((await put({ epoch: 3 })).status).toBe(200)
      },
    )

    statement(
      "prefixes and network of a pool cannot be changed, and its name is a DNS label: 422 with the reason",
      async (api) => {
        const pools = "/apis/cni-agent.internal/v1/pools"
        const pool = (spec: object, metadata: object = {}) => {
          return { apiVersion: "cni-agent.internal/v1", kind: "Pool", metadata: { name: "pods", ...metadata }, spec }
        }
        const [four, six] = [
          { prefix: "10.64.0.0/16", blockLength: 26, gateway: "10.64.0.1" },
          { prefix: "fd00:64::/48" },
        ]
        const spec = { prefixes: [four, six], network: "pods-net" }
        const label = "the name of a pool is a DNS label"
        for (const wrong of ["pods.net", "p".repeat(64)])
          expectInvalid(await ask(api, "POST", pools, { body: pool(spec, { name: wrong }) }), label)
        expect((await ask(api, "POST", pools, { body: pool(spec, { name: "p".repeat(63) }) })).status).toBe(201)
        const { body: asked } = await ask(api, "POST", pools, { body: pool(spec) })
        const { resourceVersion } = asked.metadata
        const put = (changes: object) =>
          ask(api, "PUT", `${pools}/pods`, { body: pool({ ...spec, ...changes }, { resourceVersion }) })
        const stays = "prefix, blockLength and gateway cannot be changed, since nodes own blocks of them"
        for (const prefixes of [
          [{ ...four, prefix: "10.64.0.0/15" }, six],
          [{ ...four, blockLength: 27 }, six],
          [{ ...four, gateway: "10.64.0.2" }, six],
          [{ prefix: four.prefix, blockLength: 26 }, six],
          [four, { ...six, blockLength: 122 }],
          [four, { ...six, gateway: "fd00:64::1" }],
          [four],
        ])
          expectInvalid(await put({ prefixes }), stays)
        const network = "network cannot be changed, since containers have addresses of it"
        expectInvalid(await put({ network: "others" }), network)
        expectInvalid(await put({ network: undefined }), network)
        const allowed = await put({ prefixes: [six, { ...four, reserved: ["10.64.9.0/24"] }] })
        expect([allowed.status, allowed.body.metadata.generation]).toEqual([200, 2])
      },
    )

    statement("a fixed address has the name of its interface, and stays with it: 422 with the reason", async (api) => {
      const fixed = "/apis/cni-agent.internal/v1/fixedaddresses"
      const spec = { pool: "pods", namespace: "db", pod: "mysql-0", ifName: "eth0", addresses: ["10.64.9.9"] }
      const object = (fixedName: string, changes: object = {}, metadata: object = {}) => {
        const header = { apiVersion: "cni-agent.internal/v1", kind: "FixedAddress" }
        return { ...header, metadata: { name: fixedName, ...metadata }, spec: { ...spec, ...changes } }
      }
      const named = "the name of a fixed address is NAMESPACE.POD.INTERFACE"
      expectInvalid(await ask(api, "POST", fixed, { body: object("mysql-0") }), named)
      expect((await ask(api, "POST", fixed, { body: object("db.mysql-0.eth0") })).status).toBe(201)
      const { body: made } = await ask(api, "POST", fixed, { body: object("sha256-0123") }) // of a name that is too long
      const { resourceVersion } = made.metadata
      for (const changes of [{ pool: "others" }, { namespace: "web" }, { pod: "mysql-1" }, { ifName: "eth1" }])
        expectInvalid(
          await ask(api, "PUT", `${fixed}/sha256-0123`, { body: object("sha256-0123", changes, { resourceVersion }) }),
          "the object of a fixed address is that of one interface",
        )
      const moved = object("sha256-0123", { addresses: ["10.64.9.10"] }, { resourceVersion })
      expect((await ask(api, "PUT", `${fixed}/sha256-0123`, { body: moved })).status).toBe(200)
    })

    statement(
      "a value of another type is refused with 422, and a member that the schema has not is dropped",
      async (api) => {
        const wrong = await ask(api, "POST", blocks, { body: blockObject(prefix, { epoch: "1" as never }) })
        expect([wrong.status, wrong.body.reason]).toEqual([422, "Invalid"])
        const state = await ask(api, "POST", blocks, { body: blockObject(prefix, { state: "lost" as never }) })
        expect(state.status).toBe(422)
        const more = await ask(api, "POST", blocks, { body: blockObject(prefix, { colour: "red" } as never) })
        expect([more.status, "colour" in more.body.spec]).toEqual([201, false])
      },
    )

    statement("the status of a pool is written by itself, and keeps the generation", async (api) => {
      const pools = "/apis/cni-agent.internal/v1/pools"
      const spec = { prefixes: [{ prefix: "10.64.0.0/16" }] }
      const pool = {
        apiVersion: "cni-agent.internal/v1",
        kind: "Pool",
        metadata: { name: "pods" },
        spec,
        status: { state: "Refused" },
      }
      const { body: made } = await ask(api, "POST", pools, { body: pool })
      expect(made.status).toBeUndefined()
      const status = { state: "Registered", reason: "", observedGeneration: 1 }
      const written = await ask(api, "PUT", `${pools}/pods/status`, { body: { ...made, status }, account: "agent" })
      expect([written.status, written.body.status, written.body.metadata.generation]).toEqual([200, status, 1])
    })

    statement(
      "a list comes in pages at one revision, and cannot go on after its history was forgotten: 410",
      async (api) => {
        for (let at = 0; at < 5; at++) await ask(api, "POST", blocks, { body: blockObject(`10.64.${at}.0/26`) })
        const first = await ask(api, "GET", `${blocks}?limit=2`)
        expect([first.body.items.length, first.body.metadata.remainingItemCount]).toEqual([2, 3])
        await ask(api, "POST", blocks, { body: blockObject("10.64.9.0/26") })
        const at = (token: string) => ask(api, "GET", `${blocks}?limit=3&continue=${encodeURIComponent(token)}`)
        const second = await at(first.body.metadata.continue)
        expect(second.body.metadata.resourceVersion).toBe(first.body.metadata.resourceVersion)
        expect([second.body.items.length, second.body.metadata.continue ?? ""]).toEqual([3, ""])
        await api.compact()
        const late = await at(first.body.metadata.continue)
        expect([late.status, late.body.reason]).toEqual([410, "Expired"])
      },
    )

    statement("a watch tells each change after its revision, and ends with 410 when that is forgotten", async (api) => {
      const { body: list } = await ask(api, "GET", blocks)
      const from = list.metadata.resourceVersion
      await ask(api, "POST", blocks, { body: blockObject(prefix) })
      const { body: now } = await ask(api, "GET", `${blocks}/${name}`)
      await ask(api, "PUT", `${blocks}/${name}`, { body: { ...now, spec: { ...now.spec, nonce: "second" } } })
      await ask(api, "DELETE", `${blocks}/${name}`)
      const watch = (revision: string) =>
        ask(api, "GET", `${blocks}?watch=1&timeoutSeconds=1&resourceVersion=${revision}`)
      const { body: text } = await watch(from)
      const events = String(text)
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
      expect(events.map(({ type }) => type)).toEqual(["ADDED", "MODIFIED", "DELETED"])
      const revisions = events.map(({ object }) => BigInt(object.metadata.resourceVersion))
      expect(revisions).toEqual(revisions.toSorted((a, b) => Number(a - b)))
      await api.compact()
      let answer = await watch(from)
      while (answer.status === 429) answer = await watch(from) // a server that has just started asks for patience
      expect([answer.status, answer.body.type, answer.body.object.code]).toEqual([200, "ERROR", 410])
    })

    statement("a list and its objects come as metadata alone when that is asked for", async (api) => {
      await setNodes(api, ["node-1"])
      const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
      const { body } = await ask(api, "GET", "/api/v1/nodes", { accept })
      expect([body.kind, body.items.length, body.items[0].metadata.name, body.items[0].spec]).toEqual([
        "PartialObjectMetadataList",
        1,
        "node-1",
        undefined,
      ])
    })

    statement("an unknown token is answered with 401, and what the role does not allow with 403", async (api) => {
      const unknown = await ask(api, "GET", blocks, { account: "unknown" })
      expect([unknown.status, unknown.body.reason]).toEqual([401, "Unauthorized"])
      const asAgent = (method: string, path: string, body?: unknown) =>
        ask(api, method, path, { account: "agent", body })
      const forbidden = [
        ["GET", "/api/v1/namespaces/default"],
        ["GET", "/api/v1/nodes/node-1"],
        ["POST", "/api/v1/nodes"],
        ["POST", "/apis/cni-agent.internal/v1/pools"],
        ["DELETE", "/apis/cni-agent.internal/v1/poolregistries/pools"],
        ["DELETE", "/apis/cni-agent.internal/v1/fixedaddresses/db.mysql-0.eth0"],
      ] as const
      for (const [method, path] of forbidden) {
        const { status, body } = await asAgent(method, path, method === "POST" ? {} : undefined)
        expect([path, status, body.reason]).toEqual([path, 403, "Forbidden"])
      }
    })

    statement("a kind that the server does not have is answered with 404 and no object", async (api) => {
      const { status, body } = await ask(api, "GET", "/apis/cni-agent.internal/v1/nothings/x")
      expect([status, body.details?.name]).toEqual([404, undefined])
    })
  })
}
