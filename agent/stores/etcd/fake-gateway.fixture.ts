/** What etcd's gateway answers, as far as the store asks: keys in memory, transactions, pages, watches, tokens, and odd answers on request. */

type Body = Readonly<Record<string, unknown>>

/** An answer in place of the usual one; `undefined`: the usual one. */
export type Odd = (path: string, body: Body, request: Request) => Response | undefined | Promise<Response | undefined>

interface Key {
  readonly value: string
  readonly created: bigint
  readonly modified: bigint
}

interface Change {
  readonly path: string
  readonly revision: bigint
  /** Absent: removed. */
  readonly key?: Key
}

/** An etcd of one process that several gateways may stand before, as members do. */
export class FakeEtcd {
  cluster = "14841639068965178418" // beyond int64, and beyond what a number holds
  revision = 9_007_199_254_740_993n // 2^53 + 1
  compacted = 0n
  readonly keys = new Map<string, Key>()
  readonly changes: Change[] = []
  readonly streams = new Set<Stream>()
  /** The tokens that are known; `undefined`: there is no authentication. */
  tokens: Set<string> | undefined
  password = "secret"

  put(path: string, value: string): void {
    this.revision++
    const key = { value, created: this.keys.get(path)?.created ?? this.revision, modified: this.revision }
    this.keys.set(path, key)
    this.#tell({ path, revision: this.revision, key })
  }

  remove(path: string): void {
    this.revision++
    this.keys.delete(path)
    this.#tell({ path, revision: this.revision })
  }

  #tell(change: Change): void {
    this.changes.push(change)
    for (const stream of this.streams) stream.tell(this, [change])
  }

  /** Ends all watches, in the midst of a line. */
  cut(): void {
    for (const stream of this.streams) stream.cut()
    this.streams.clear()
  }

  /** Forgets the history before now. */
  compact(): void {
    this.compacted = this.revision
  }

  header(revision = this.revision): Body {
    return { cluster_id: this.cluster, member_id: "10276657743932975437", revision: String(revision), raft_term: "2" }
  }
}

/** One watch: what it is for, and where its lines go. */
export class Stream {
  readonly #range: Body
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>

  constructor(range: Body, writer: WritableStreamDefaultWriter<Uint8Array>) {
    this.#range = range
    this.#writer = writer
  }

  /** Sends a text. One whose reader is no longer there is dropped. */
  send(text: string | Uint8Array): void {
    this.#writer.write(Buffer.from(text)).catch(() => {})
  }

  /** Ends in the midst of a line. */
  cut(): void {
    this.send('{"result":{"header":{"cluster_id":"148416')
    this.#writer.close().catch(() => {})
  }

  tell(etcd: FakeEtcd, changes: readonly Change[]): void {
    const events = changes.filter(({ path }) => isInRange(path, this.#range)).map(eventOf)
    if (events.length > 0) this.line({ header: etcd.header(), events })
  }

  line(result: Body): void {
    this.send(`${JSON.stringify({ result })}\n`)
  }
}

const encode = (text: string) => Buffer.from(text).toString("base64")
const decode = (text: unknown) => Buffer.from(String(text ?? ""), "base64").toString()

function kvOf(path: string, { value, created, modified }: Key): Body {
  return {
    key: encode(path),
    value: encode(value),
    create_revision: String(created),
    mod_revision: String(modified),
    version: "1",
  }
}

function eventOf({ path, revision, key }: Change): Body {
  return key ? { kv: kvOf(path, key) } : { type: "DELETE", kv: { key: encode(path), mod_revision: String(revision) } }
}

function isInRange(path: string, { key, range_end }: Body): boolean {
  return range_end === undefined ? path === decode(key) : path >= decode(key) && path < decode(range_end)
}

const denied = (status: number, message: string) => Response.json({ error: message, message, code: 3 }, { status })

/** One member: its gateway on loopback. */
export class FakeGateway implements AsyncDisposable {
  /** All requests so far. */
  readonly requests: {
    readonly path: string
    readonly body: Body
    readonly token: string | null
    readonly asksForLeader: boolean
  }[] = []
  odd: Odd | undefined
  readonly #etcd: FakeEtcd
  readonly #server: Bun.Server<undefined>

  constructor(etcd: FakeEtcd, options: { readonly tls?: Bun.TLSOptions; readonly port?: number } = {}) {
    this.#etcd = etcd
    const { tls, port = 0 } = options
    const fetch = (request: Request) => this.#answer(request)
    this.#server = Bun.serve({ hostname: "127.0.0.1", port, idleTimeout: 0, ...(tls && { tls }), fetch })
  }

  get port(): number {
    return this.#server.port ?? 0
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** How many requests of a path came. */
  count(path: string): number {
    return this.requests.filter((request) => request.path === path).length
  }

  async #answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname
    const body = (await request.json()) as Body
    const token = request.headers.get("authorization")
    this.requests.push({ path, body, token, asksForLeader: request.headers.get("grpc-metadata-hasleader") === "true" })
    const odd = await this.odd?.(path, body, request)
    if (odd) return odd
    if (path === "/v3/auth/authenticate") return this.#authenticate(body)
    const { tokens } = this.#etcd
    if (tokens && token === null) return denied(400, "etcdserver: user name is empty")
    if (tokens && !tokens.has(token ?? "")) return denied(401, "etcdserver: invalid auth token")
    if (path === "/v3/kv/range") return this.#range(body)
    if (path === "/v3/kv/txn") return this.#txn(body)
    if (path === "/v3/watch") return this.#watch(body, request.signal)
    return new Response("404 page not found\n", { status: 404 })
  }

  #authenticate({ password }: Body): Response {
    const etcd = this.#etcd
    if (!etcd.tokens) return denied(412, "etcdserver: authentication is not enabled")
    if (password !== etcd.password) return denied(400, "etcdserver: authentication failed, invalid user ID or password")
    const token = `token-${crypto.randomUUID()}`
    etcd.tokens.add(token)
    return Response.json({ header: etcd.header(), token })
  }

  #range(body: Body): Response {
    const etcd = this.#etcd
    const at = BigInt(String(body.revision ?? 0))
    if (at > 0n && at < etcd.compacted) return denied(400, "etcdserver: mvcc: required revision has been compacted")
    const keys = [...(at > 0n ? keysAt(etcd, at) : etcd.keys)].filter(([path]) => isInRange(path, body)).sort(byPath)
    const limit = Number(body.limit ?? 0) || keys.length
    const kvs = keys.slice(0, limit).map(([path, key]) => kvOf(path, key))
    const more = keys.length > limit && { more: true }
    return Response.json({ header: etcd.header(), ...(kvs.length > 0 && { kvs }), ...more, count: String(keys.length) })
  }

  #txn(body: Body): Response {
    const etcd = this.#etcd
    const succeeded = (body.compare as Body[]).every((compare) => holds(etcd.keys.get(decode(compare.key)), compare))
    for (const operation of succeeded ? (body.success as Body[]) : []) {
      const { request_put: put, request_delete_range: removal } = operation as Record<string, Body | undefined>
      if (put) etcd.put(decode(put.key), decode(put.value))
      if (removal) etcd.remove(decode(removal.key))
    }
    return Response.json({ header: etcd.header(), ...(succeeded && { succeeded }) })
  }

  #watch(body: Body, signal: AbortSignal): Response {
    const etcd = this.#etcd
    const range = body.create_request as Body
    const from = BigInt(String(range.start_revision ?? 0))
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
    const stream = new Stream(range, writable.getWriter())
    stream.line({ header: etcd.header(), created: true })
    if (from > 0n && from <= etcd.compacted)
      stream.line({ header: etcd.header(), canceled: true, compact_revision: String(etcd.compacted) })
    else {
      stream.tell(
        etcd,
        etcd.changes.filter(({ revision }) => revision >= from),
      )
      etcd.streams.add(stream)
    }
    signal.addEventListener("abort", () => etcd.streams.delete(stream))
    return new Response(readable, { headers: { "content-type": "application/json" } })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true)
  }
}

function byPath([a]: [string, Key], [b]: [string, Key]): number {
  return a < b ? -1 : 1
}

function holds(key: Key | undefined, { target, create_revision, mod_revision, value }: Body): boolean {
  if (target === "CREATE") return String(key?.created ?? 0) === create_revision
  if (target === "MOD") return String(key?.modified ?? 0) === mod_revision
  return target === "VALUE" && key?.value === decode(value)
}

/** The keys as they were at a revision. */
function keysAt(etcd: FakeEtcd, revision: bigint): Map<string, Key> {
  const keys = new Map<string, Key>()
  for (const { path, key, revision: at } of etcd.changes) {
    if (at > revision) break
    if (key) keys.set(path, key)
    else keys.delete(path)
  }
  return keys
}
