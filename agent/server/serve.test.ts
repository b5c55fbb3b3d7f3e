import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Status } from "../status.ts"
import { askAgent, serveHttp, serveSocket } from "./serve.ts"
import { sampleStatus } from "./status.fixture.ts"

/** A directory for a test, and answers from a status that the test can change. */
function scene() {
  const directory = mkdtempSync(join(tmpdir(), "agent-serve-"))
  const known = { status: sampleStatus as Status | undefined, accepted: false, missing: [] as string[] }
  return {
    known,
    path: join(directory, "run", "agent.sock"),
    answers: {
      status: () => known.status,
      usage: () => ({ residentBytes: 1, cpuS: 2 }),
      version: "1",
      missing: () => known.missing,
      async acceptStore() {
        if (known.accepted) throw new Error("there is nothing to accept")
        known.accepted = true
      },
    },
    [Symbol.dispose]: () => rmSync(directory, { recursive: true }),
  }
}

test("the socket is for root alone, tells the status, and goes with the agent", async () => {
  using at = scene()
  {
    await using _ = await serveSocket(at.path, at.answers)
    expect(statSync(at.path).mode & 0o7777).toBe(0o600)
    expect(await askAgent(at.path)).toEqual(sampleStatus)
    at.known.status = undefined
    await expect(askAgent(at.path)).rejects.toThrow(`Cannot ask the agent at "${at.path}": the agent is starting`)
  }
  expect(statSync(at.path, { throwIfNoEntry: false })).toBeUndefined()
  await expect(askAgent(at.path)).rejects.toThrow(`Cannot ask the agent at "${at.path}": it does not run`)
})

test("a socket that a killed agent left is replaced; one with a listener, or another file, is not", async () => {
  using at = scene()
  const other = createServer()
  await using _ = await serveSocket(join(at.path, "..", "first"), at.answers) // makes the directory
  const { promise: listening, resolve } = Promise.withResolvers<void>()
  other.listen(at.path, () => resolve())
  await listening
  await expect(serveSocket(at.path, at.answers)).rejects.toThrow(`Cannot listen at "${at.path}": another process does`)
  const left = Bun.spawnSync([
    "python3",
    "-c",
    "import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])",
    `${at.path}2`,
  ])
  expect(left.exitCode).toBe(0)
  await using replaced = await serveSocket(`${at.path}2`, at.answers)
  expect(await askAgent(`${at.path}2`)).toEqual(sampleStatus)
  other.close()
  writeFileSync(`${at.path}3`, "")
  await expect(serveSocket(`${at.path}3`, at.answers)).rejects.toThrow()
  expect(replaced).toBeDefined()
})

test("the socket alone takes the word that the store is to be trusted", async () => {
  using at = scene()
  await using _ = await serveSocket(at.path, at.answers)
  const accept = async () => {
    const response = await fetch("http://agent/accept-store", { unix: at.path, method: "POST" })
    return [response.status, await response.text()]
  }
  expect(await accept()).toEqual([200, "ok\n"])
  expect(at.known.accepted).toBe(true)
  expect(await accept()).toEqual([500, "there is nothing to accept\n"])
})

test("HTTP has metrics and health, not the status, and takes GET alone", async () => {
  using at = scene()
  const port = 20_000 + (process.pid % 20_000)
  await using _ = serveHttp({ hostname: "127.0.0.1", port }, at.answers)
  const get = async (path: string, method = "GET", body?: string) => {
    const options = body === undefined ? { method } : { method, body }
    const response = await fetch(`http://127.0.0.1:${port}${path}`, options)
    return [response.status, await response.text()] as const
  }
  expect(await get("/healthz")).toEqual([200, "ok\n"])
  expect(await get("/readyz")).toEqual([200, "ok\n"])
  expect((await get("/metrics"))[1]).toStartWith("# HELP cni_ipam_agent_info ")
  expect((await get("/status"))[0]).toBe(404)
  expect((await get("/metrics", "POST", "x"))[0]).toBe(405)
  expect((await get("/accept-store", "POST", "x"))[0]).toBe(405)
  expect((await get("/metrics", "POST", "x".repeat(2000)))[0]).toBe(413)
  at.known.missing = ['pool "pods" has no file yet']
  expect(await get("/readyz")).toEqual([503, 'pool "pods" has no file yet\n'])
  at.known.missing = []
  const [pool] = sampleStatus.pools
  at.known.status = {
    ...sampleStatus,
    store: { ...sampleStatus.store, fault: "no quorum" },
    pools: pool ? [{ ...pool, fault: "the disk is full" }] : [],
  }
  expect(await get("/readyz")).toEqual([503, "no quorum\nthe disk is full\n"])
  expect(await get("/healthz")).toEqual([200, "ok\n"])
  at.known.status = undefined
  expect(await get("/readyz")).toEqual([503, "the agent is starting\n"])
  expect((await get("/metrics"))[0]).toBe(503)
})
