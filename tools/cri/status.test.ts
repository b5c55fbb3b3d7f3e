import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { callOver } from "./call.ts"
import { askStatus } from "./status.ts"
import { type Answer, startRuntimes } from "./testing.ts"

const directory = mkdtempSync(join(tmpdir(), "cri-"))
const far = 60_000

const source = '{"name": "pods", "plugins": [{"type": "bridge"}]}'
/** As containerd 1.6 says it; the second network has nothing that could be read. */
const cniconfig = JSON.stringify({
  PluginDirs: ["/opt/cni/bin"],
  PluginConfDir: "/etc/cni/net.d",
  PluginMaxConfNum: 1,
  Prefix: "eth",
  Networks: [
    { IFName: "eth0", Config: { Name: "pods", Source: source, Plugins: [{ Source: '{"type":"bridge"}' }, {}] } },
    {},
  ],
})
const ready = { type: "NetworkReady", status: true }
const notReady = { ...ready, status: false, reason: "NotReady", message: "no CNI configuration file" }
const letters = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join("")

let runtimes: AsyncDisposable
beforeAll(async () => {
  const once = (answer: Answer) => ({ answers: [answer] })
  runtimes = await startRuntimes(directory, {
    containerd: once({
      status: { conditions: [{ type: "RuntimeReady", status: true }, ready] },
      info: { golang: '"go"', cniconfig, lastCNILoadStatus: "OK" },
    }),
    crio: once({ status: { conditions: [notReady] }, info: { config: "{}" } }),
    empty: once({}),
    garbage: once({
      info: { cniconfig: '{"Networks": [1, {"Config": 2}], "PluginConfDir": 3}', lastCNILoadStatus: "x" },
    }),
    broken: once({ info: { cniconfig: "{" } }),
    large: once({ info: { config: "x".repeat(100), "lastCNILoadStatus.default": "y".repeat(4_000_000), cniconfig } }),
    "too-large": once({ info: { config: "x".repeat(4_200_000) } }),
    older: { version: "v1alpha2", answers: [{ status: { conditions: [ready] } }] },
    "every-letter": once({ error: { code: 13, details: letters } }),
    long: once({ error: { code: 2, details: "é".repeat(7000) } }), // more than a frame of headers
    slow: once("nothing"),
  })
}, far)
afterAll(async () => {
  await runtimes[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true })
})

const ask = (name: string, timeoutMs = far) => askStatus(join(directory, name), timeoutMs)
const pods = { name: "pods", sources: ['{"name": "pods", "plugins": [{"type": "bridge"}]}', '{"type":"bridge"}'] }

describe("of a server of gRPC's own library", () => {
  test("containerd's status has the networks that it has loaded", async () => {
    expect(await ask("containerd")).toEqual({
      network: { isReady: true, reason: "" },
      loaded: { confDir: "/etc/cni/net.d", networks: [pods], lastLoad: "OK" },
    })
  })

  test("CRI-O's says whether it has a network, and not which", async () => {
    const network = { isReady: false, reason: "no CNI configuration file" }
    expect(await ask("crio")).toEqual({ network, loaded: undefined })
  })

  test("what is missing, or of another type, is not there", async () => {
    for (const name of ["empty", "broken"]) expect(await ask(name)).toEqual({ network: undefined, loaded: undefined })
    expect(await ask("garbage")).toEqual({ network: undefined, loaded: { confDir: "", networks: [], lastLoad: "x" } })
  })

  test("a runtime that knows the older version of CRI only is asked by that", async () => {
    expect(await ask("older")).toEqual({ network: { isReady: true, reason: "" }, loaded: undefined })
  })

  test("an answer of 4 MB is read, and a larger one is refused", async () => {
    expect((await ask("large"))?.loaded?.lastLoad).toBe("y".repeat(4_000_000))
    await expect(ask("too-large")).rejects.toThrow("an answer of more than 4194304 bytes")
  })

  test("its errors are thrown with all their letters, also those that need more than one frame", async () => {
    await expect(ask("every-letter")).rejects.toThrow(expect.objectContaining({ code: 13, message: letters }))
    await expect(ask("long")).rejects.toThrow(expect.objectContaining({ code: 2, message: "é".repeat(7000) }))
  })

  test("one that does not answer is waited for no longer than said", async () => {
    await expect(ask("slow", 300)).rejects.toThrow("no answer within 300 ms")
  })
})

/** A server that does this with each connection, and with what it receives. */
function listen(name: string, handler: (socket: Bun.Socket<undefined>, received: Uint8Array) => void): Disposable {
  const data = (socket: Bun.Socket<undefined>, bytes: Uint8Array) => handler(socket, bytes)
  const listening = Bun.listen({ unix: join(directory, name), socket: { data } })
  return { [Symbol.dispose]: () => listening.stop(true) }
}

describe("of a socket without gRPC", () => {
  test("where nothing listens there is no status", async () => {
    writeFileSync(join(directory, "file"), "")
    for (const name of ["absent", "file", "file/below"]) expect(await ask(name)).toBeUndefined()
  })

  test("one that hangs up, and one that speaks another protocol", async () => {
    using _ = listen("hangs-up", (socket) => void socket.end())
    await expect(ask("hangs-up")).rejects.toThrow("it has closed the connection")
    using __ = listen("http-1", (socket) => void socket.write("HTTP/1.1 505 HTTP Version Not Supported\r\n\r\n"))
    await expect(ask("http-1")).rejects.toThrow("bytes that are no HTTP/2")
  })

  test("one that asks on and on gets its answers, and no more time", async () => {
    const ping = new Uint8Array([0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    let answered = 0
    using _ = listen("asks", (socket, received) => {
      if (answered++ === 0) socket.write(new Uint8Array([0, 0, 0, 4, 0, 0, 0, 0, 0]))
      if (received.length > 0) socket.write(ping)
    })
    const call = callOver(join(directory, "asks"), { path: "/a", message: new Uint8Array(), timeoutMs: 200 })
    await expect(call).rejects.toThrow("no answer within 200 ms")
    expect(answered).toBeGreaterThan(2)
  })
})
