import type { Json } from "./contract.fixture.ts"
import type { Engine } from "./engine.ts"

/** Calls `work`, runs all jobs, and returns the values that `work` has recorded and the errors of `runJobs`. */
function ran(engine: Engine, work: (record: (what: Json) => void) => void): Json {
  const events: Json[] = []
  work((what) => events.push(what))
  events.push("work returns")
  try {
    engine.runJobs?.()
  } catch (error) {
    events.push(`thrown: ${error}`)
  }
  return events
}

/** The contract of `runJobs`, for engines that have it: the name, the action, and the expected result of each case. */
export const jobCases: readonly (readonly [name: string, run: (engine: Engine) => Json, expected: Json])[] = [
  ["nothing to do", (e) => ran(e, () => {}), ["work returns"]],
  [
    "what waits for a promise runs after the code that is running, in order",
    (e) =>
      ran(e, (record) => {
        const { promise, resolve } = Promise.withResolvers<string>()
        void promise.then((value) => record(`first: ${value}`))
        void promise.then((value) => record(`second: ${value}`))
        resolve("a")
      }),
    ["work returns", "first: a", "second: a"],
  ],
  [
    "an async function goes on until it waits for what is not settled",
    (e) =>
      ran(e, (record) => {
        const wait = async () => {
          record("starts")
          for (const step of [1, 2]) record(await Promise.resolve(step))
          await new Promise(() => {})
          record("never")
        }
        void wait()
      }),
    ["starts", "work returns", 1, 2],
  ],
  [
    "a rejection that is caught is not thrown, neither when it is caught only in a later job",
    (e) =>
      ran(e, (record) => {
        const fail = async () => {
          throw new Error("no")
        }
        void fail().catch((error) => record(String(error)))
        const late = Promise.reject(new Error("late"))
        void Promise.resolve().then(() => late.catch((error) => record(String(error))))
      }),
    ["work returns", "Error: no", "Error: late"],
  ],
  [
    "a rejection that nothing listens to is thrown, once",
    (e) => [
      ran(e, () => {
        void Promise.reject(new Error("one"))
        void Promise.reject(new Error("two"))
      }),
      ran(e, () => {}),
    ],
    [["work returns", "thrown: Error: one"], ["work returns"]],
  ],
  [
    "what is awaited with `using` is disposed of, in a generator too",
    (e) =>
      ran(e, (record) => {
        const values = async function* () {
          await using _ = { [Symbol.asyncDispose]: async () => record("disposed of") }
          yield 1
          yield 2
        }
        const read = async () => {
          for await (const value of values()) record(value)
        }
        void read()
      }),
    ["work returns", 1, 2, "disposed of"],
  ],
]
