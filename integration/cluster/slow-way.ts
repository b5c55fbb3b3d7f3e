import type { HostNamespace } from "../lab/mod.ts"

/** What becomes of requests that come from now on. */
export interface Disturbance {
  /** Each request and each answer waits up to so long: two that are under way at one time may change places. */
  readonly delayMs: number
  /** Once in so many requests of change the answer is lost after etcd has given it; 0 for never. */
  readonly loseEvery: number
  /** Whether the list of all nodes is answered as if there were no node. */
  readonly hidesNodes?: boolean
  /** Requests about blocks that wait; the next disturbance without this sends them, also those of an agent that has ended. */
  readonly holds?: "claims" | "removals"
}

/** Where it listens, inside the node. */
export const slowEndpoint = "http://127.0.0.1:2379"

/**
 * A way to etcd that is slow, changes the order of requests, and loses answers after the store has done what was asked. It is a process inside
 * a node, whose agent has `slowEndpoint` for its store.
 */
export class SlowWay implements AsyncDisposable {
  readonly #process: Bun.Subprocess<"pipe", "pipe", "inherit">
  readonly #answers: AsyncIterator<Uint8Array>

  private constructor(process: Bun.Subprocess<"pipe", "pipe", "inherit">) {
    this.#process = process
    this.#answers = process.stdout[Symbol.asyncIterator]()
  }

  static async start(host: HostNamespace, endpoint: string): Promise<SlowWay> {
    const command = host.commandLine([process.execPath, import.meta.path, endpoint])
    const way = new SlowWay(Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "inherit" }))
    await way.disturb({ delayMs: 0, loseEvery: 0 })
    return way
  }

  /** From now on requests are disturbed like this. Answers how many requests were held until then. */
  async disturb(disturbance: Disturbance): Promise<number> {
    this.#process.stdin.write(`${JSON.stringify(disturbance)}\n`)
    await this.#process.stdin.flush()
    const { value } = await this.#answers.next()
    return Number(new TextDecoder().decode(value))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#process.exited
  }
}

/** The process inside the node. Each line on stdin is a new `Disturbance`, and is answered by a line. */
async function main(endpoint: string): Promise<void> {
  let now: Disturbance = { delayMs: 0, loseEvery: 0 }
  let changes = 0
  const held: (() => Promise<void>)[] = []
  const wait = () => Bun.sleep(Math.random() * now.delayMs)
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 2379,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const body = await request.arrayBuffer()
      const { method, headers, signal } = request
      if (now.holds && now.holds === changeOfBlock(pathname, Buffer.from(body).toString())) {
        const { promise, resolve } = Promise.withResolvers<Response>()
        held.push(async () => {
          const answer = await fetch(`${endpoint}${pathname}`, { method, headers, body })
          resolve(new Response(await answer.arrayBuffer(), answer))
        })
        return promise
      }
      await wait()
      const answer = await fetch(`${endpoint}${pathname}`, { method, headers, body, signal })
      if (now.hidesNodes && pathname === "/v3/kv/range" && isOfAllNodes(Buffer.from(body).toString())) {
        const { header } = (await answer.json()) as { header: object }
        return Response.json({ header, count: "0" })
      }
      const isChange = pathname === "/v3/kv/txn" && ++changes % Math.max(now.loseEvery, 1) === 0 && now.loseEvery > 0
      if (!isChange) {
        await wait()
        return new Response(answer.body, { status: answer.status, headers: { "content-type": "application/json" } })
      }
      await answer.arrayBuffer() // etcd has done it
      return new Promise<Response>(() => {}) // and the agent waits for ever, or until its time-out
    },
  })
  const lines = Bun.stdin.stream().pipeThrough(new TextDecoderStream() as never) as ReadableStream<string>
  for await (const text of lines) {
    for (const line of text.split("\n").filter(Boolean)) now = JSON.parse(line)
    const count = held.length
    if (!now.holds) for (const send of held.splice(0)) await send()
    console.log(count)
  }
  await server.stop(true)
}

/** What a request of etcd does to the record of a block. */
function changeOfBlock(path: string, body: string): Disturbance["holds"] {
  const key = btoa("/cni/bloc") // of "/cni/block/…": three bytes are four letters
  if (path !== "/v3/kv/txn" || !body.includes(key)) return undefined
  if (body.includes("request_delete_range")) return "removals"
  return body.includes('"CREATE"') ? "claims" : undefined
}

/** Whether a request of etcd is for the records of all nodes. */
function isOfAllNodes(body: string): boolean {
  const { key, range_end } = JSON.parse(body) as { key: string; range_end?: string }
  return range_end !== undefined && Buffer.from(key, "base64").toString().endsWith("/node/")
}

if (import.meta.main) await main(process.argv[2] ?? "")
