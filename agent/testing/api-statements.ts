import { describe, expect, test } from "bun:test"
import { type ApiUnderTest, ask, blockObject, setNodes } from "./kubernetes-stores.ts"

const blocks = "/apis/cni-agent.internal/v1/blocks"
const name = "pods-10.64.3.0-26"
const prefix = "10.64.3.0/26"

/** What a test takes of an API server: an empty one, and how to forget its history. */
export interface ApiForStatements extends ApiUnderTest, AsyncDisposable {
  compact(): Promise<void>
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
      "prefix and block length of a pool, and the prefix of a block, cannot be changed: 422 with the reason",
      async (api) => {
        const { body: made } = await ask(api, "POST", blocks, { body: blockObject(prefix, { epoch: 2 }) })
        const moved = await ask(api, "PUT", `${blocks}/${name}`, {
          body: { ...made, spec: { ...made.spec, prefix: "10.64.3.64/26" } },
        })
        expect([moved.status, moved.body.reason]).toEqual([422, "Invalid"])
        expect(moved.body.message).toContain("the object of a block is that of one prefix")
        const older = await ask(api, "PUT", `${blocks}/${name}`, {
          body: { ...made, spec: { ...made.spec, epoch: 1 } },
        })
        expect([older.status, older.body.message]).toEqual([422, expect.stringContaining("never goes back")])
        const pools = "/apis/cni-agent.internal/v1/pools"
        const pool = (spec: object, metadata: object = {}) => {
          return { apiVersion: "cni-agent.internal/v1", kind: "Pool", metadata: { name: "pods", ...metadata }, spec }
        }
        const prefixes = [{ prefix: "10.64.0.0/16", blockLength: 26 }]
        const { body: asked } = await ask(api, "POST", pools, { body: pool({ prefixes }) })
        const { resourceVersion } = asked.metadata
        for (const changed of [
          { prefix: "10.64.0.0/15", blockLength: 26 },
          { prefix: "10.64.0.0/16", blockLength: 27 },
        ]) {
          const refused = await ask(api, "PUT", `${pools}/pods`, {
            body: pool({ prefixes: [changed] }, { resourceVersion }),
          })
          expect([refused.status, refused.body.message]).toEqual([422, expect.stringContaining("cannot be changed")])
        }
        const reserved = [{ ...prefixes[0], reserved: ["10.64.9.0/24"] }]
        const allowed = await ask(api, "PUT", `${pools}/pods`, {
          body: pool({ prefixes: reserved }, { resourceVersion }),
        })
        expect([allowed.status, allowed.body.metadata.generation]).toEqual([200, 2])
      },
    )

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
