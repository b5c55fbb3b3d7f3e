/**
 * Calls etcd stores for a test from inside a network namespace, where the test's own process is not: `remote-store.ts` has the other end.
 */
import { openEtcdStore, type Store, StoreError } from "../../agent/mod.ts"
import type { Answer, Question } from "./remote-store.ts"

const stores = new Map<number, Store>()
const watches = new Map<number, AbortController>()

const tell = (answer: Answer) => void process.send?.(answer)

async function act({ id, store: number, call, args }: Question): Promise<unknown> {
  if (call === "open") {
    const store = openEtcdStore(...(args as Parameters<typeof openEtcdStore>))
    stores.set(number, store)
    return store.name
  }
  if (call === "memory") return { rss: process.memoryUsage().rss, cpuMs: process.cpuUsage().user / 1000 }
  const store = stores.get(number)
  if (!store) throw new Error(`There is no store ${number}`)
  if (call === "abort") return watches.get(Number(args[0]))?.abort()
  if (call === "watch") {
    const ended = new AbortController()
    watches.set(id, ended)
    for await (const event of store.watch(...([args[0], ended.signal] as Parameters<Store["watch"]>)))
      tell({ id, event })
    return undefined
  }
  if (call === "close") return store[Symbol.asyncDispose]()
  return (store[call] as (...args: unknown[]) => Promise<unknown>).apply(store, [...args])
}

process.on("message", async (question: Question) => {
  const { id } = question
  try {
    tell({ id, result: await act(question) })
  } catch (error) {
    const { message } = error as Error
    tell({ id, error: { message, ...(error instanceof StoreError && { outcome: error.outcome }) } })
  }
})
process.on("disconnect", () => process.exit())
