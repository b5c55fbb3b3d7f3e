import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serveHttp, serveSocket } from "./server.ts"
import { askAgent, type Status } from "./status.ts"

const network = { name: "pods", file: "/run/cni/ranges/pods.json", ranges: ["10.244.1.0/24"], former: [], strays: [] }
const status: Status = {
  version: "1",
  node: "a",
  server: "https://192.0.2.1",
  nodes: 2,
  network,
  routes: { wanted: 3, faults: [] },
}

test("the socket is for root alone, tells the status, excludes a second agent, and goes with the agent", async () => {
  const directory = mkdtempSync(join(tmpdir(), "agent-serve-"))
  const path = join(directory, "run/agent.sock")
  try {
    {
      await using _ = await serveSocket(path, () => status)
      expect(statSync(path).mode & 0o7777).toBe(0o600)
      expect(await askAgent(path)).toEqual(status)
      await expect(serveSocket(path, () => status)).rejects.toThrow("Cannot run: another agent of this node listens")
    }
    expect(statSync(path, { throwIfNoEntry: false })).toBeUndefined()
    await expect(askAgent(path)).rejects.toThrow(`Cannot query the agent at "${path}": it is not running`)
  } finally {
    rmSync(directory, { recursive: true })
  }
})

async function freePort(): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>()
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const address = probe.address()
    probe.close(() => resolve(typeof address === "object" ? (address?.port ?? 0) : 0))
  })
  return promise
}

test("HTTP has metrics and health for requests by address, and readiness while the network has a range", async () => {
  let now = status
  const port = await freePort()
  await using _ = serveHttp({ hostname: "127.0.0.1", port }, () => now)
  const get = async (path: string, host = `127.0.0.1:${port}`, method = "GET") => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers: { host } })
    return [response.status, await response.text()] as const
  }
  expect(await get("/healthz")).toEqual([200, "ok\n"])
  expect(await get("/readyz", "[fd00::1]:9817")).toEqual([200, "ok\n"])
  expect(await get("/readyz", "localhost")).toEqual([200, "ok\n"])
  expect((await get("/metrics", "rebound.example"))[0]).toBe(403)
  expect((await get("/metrics", "127.0.0.1.example:9817"))[0]).toBe(403)
  expect((await get("/metrics"))[1]).toContain('cni_agent_ranges{network="pods"} 1')
  expect((await get("/status"))[0]).toBe(404)
  expect((await get("/metrics", undefined, "DELETE"))[0]).toBe(405)
  now = { ...status, network: { ...network, fault: "no range" } }
  expect(await get("/readyz")).toEqual([503, "no range\n"])
  expect((await get("/healthz"))[0]).toBe(200)
})
