import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { listenAt } from "../../pkg/libc/mod.ts"
import { serve } from "../../pkg/skel/mod.ts"
import { dhcp } from "./main.ts"
import { callDaemon, DaemonError, NoDaemonError } from "./rpc/client.ts"

let directory: string
let daemon: Bun.Subprocess<"ignore", "pipe", "inherit">
let reading: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>
let text = ""

beforeAll(async () => {
  directory = mkdtempSync("/tmp/dhcp-plugin-")
  const script = join(import.meta.dir, "testing/scripted-daemon.ts")
  daemon = Bun.spawn([process.execPath, script, directory], { stdin: "ignore", stdout: "pipe", stderr: "inherit" })
  reading = daemon.stdout.getReader() as typeof reading
  while (!text.includes("listening\n")) await readMore()
})
afterAll(async () => {
  daemon.kill()
  await daemon.exited
  rmSync(directory, { recursive: true })
})

async function readMore(): Promise<void> {
  const { done, value } = await reading.read()
  if (done) throw new Error("The daemon has ended")
  text += new TextDecoder().decode(value)
}

async function nextCall() {
  text = text.replace("listening\n", "")
  while (!text.includes("\n")) await readMore()
  const end = text.indexOf("\n")
  const call = JSON.parse(text.slice(0, end))
  text = text.slice(end + 1)
  return call
}

function run(
  verb: string,
  { answer = "", socket = "dhcp.sock", netns = "/run/netns/box", refuses = false, ...more } = {},
) {
  const env = {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: "box",
    CNI_NETNS: netns,
    CNI_IFNAME: "eth0",
    CNI_ARGS: "K8S=1",
    CNI_PATH: "/opt/cni/bin",
  }
  const ipam = { type: "dhcp", daemonSocketPath: join(directory, socket), ...more }
  const stdin = JSON.stringify({
    cniVersion: "1.1.0",
    name: "net",
    type: "dhcp",
    answer,
    ipam,
    "cni.dev/valid-attachments": [],
  })
  const log: string[] = []
  const write = () => {
    throw new Error("no reader")
  }
  const { exitCode, stdout } = serve(dhcp, {
    env,
    stdin: () => new TextEncoder().encode(stdin),
    log: (line) => log.push(line),
    ...(refuses && { write }),
  })
  return { exitCode, log, stdin, json: stdout === "" ? undefined : JSON.parse(stdout) }
}

const started = 'start it with "systemctl enable --now cni-dhcp.socket", or by hand with "/opt/cni/bin/dhcp daemon"'

describe("ADD", () => {
  test("answers what the daemon has leased, and tells it of the whole call", async () => {
    const { exitCode, json, stdin, log } = run("ADD")
    expect({ exitCode, log, json }).toEqual({
      exitCode: 0,
      log: [],
      json: {
        cniVersion: "1.1.0",
        ips: [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }],
        routes: [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
        dns: { nameservers: ["10.1.2.53"] },
      },
    })
    expect(await nextCall()).toEqual({
      method: "DHCP.Allocate",
      containerId: "box",
      netns: "/run/netns/box",
      ifName: "eth0",
      args: "K8S=1",
      path: "/opt/cni/bin",
      stdin,
    })
  })

  test("tells a namespace's path from the root, where it is one from here", async () => {
    run("ADD", { netns: "netns/box" })
    expect((await nextCall()).netns).toBe(`${process.cwd()}/netns/box`)
  })

  test("whose answer cannot be written releases the lease", async () => {
    expect(run("ADD", { refuses: true }).exitCode).toBe(1)
    expect([(await nextCall()).method, (await nextCall()).method]).toEqual(["DHCP.Allocate", "DHCP.Release"])
  })

  test("understands a daemon byte by byte", async () => {
    expect(run("ADD", { answer: "in-pieces" }).json.ips).toHaveLength(1)
    await nextCall()
  })

  test.each([
    ["refused", 999, "error calling DHCP.Allocate: no more tries"],
    ["unreadable", 999, "error calling DHCP.Allocate: cannot read its answer: an address has neither 4 nor 16 bytes"],
  ])("that is %s is the error in upstream's words", async (answer, code, msg) => {
    const { exitCode, json } = run("ADD", { answer })
    expect({ exitCode, json }).toEqual({ exitCode: 1, json: { cniVersion: "1.1.0", code, msg } })
    const methods = [(await nextCall()).method]
    if (answer === "unreadable") methods.push((await nextCall()).method) // an address was leased
    expect(methods).toEqual(["DHCP.Allocate", "DHCP.Release"].slice(0, methods.length))
  })
})

test("verbs ask for what they are for", async () => {
  for (const [verb, method] of [
    ["CHECK", "DHCP.Check"],
    ["DEL", "DHCP.Release"],
    ["GC", "DHCP.Collect"],
  ] as const) {
    expect(run(verb)).toMatchObject({ exitCode: 0, json: undefined, log: [] })
    expect((await nextCall()).method).toBe(method)
  }
  expect(run("STATUS")).toMatchObject({ exitCode: 0, json: undefined, log: [] })
})

test.each(["CHECK", "DEL", "GC"])("%s tells what the daemon refuses", async (verb) => {
  const { exitCode, json } = run(verb, { answer: "refused" })
  const { method } = await nextCall()
  expect([exitCode, json.code, json.msg]).toEqual([1, 999, `error calling ${method}: no more tries`])
})

test.each([
  ["CHECK", "CHECK did nothing: the daemon at ", " is upstream's, and would return a new lease"],
  ["GC", "GC released nothing: the daemon at ", " is upstream's, which does not support GC"],
])("%s says what upstream's daemon cannot do, and succeeds", async (verb, first, last) => {
  const { exitCode, log } = run(verb, { answer: "refused-by-upstream" })
  expect([exitCode, log]).toEqual([0, [`dhcp: ${first}"${join(directory, "dhcp.sock")}"${last}`]])
  await nextCall()
})

describe("without a daemon", () => {
  test.each([
    ["ADD", 11, "lease addresses"],
    ["CHECK", 11, "check the lease"],
    ["STATUS", 50, "lease addresses"],
  ])("%s is code %d: cannot %s", (verb, code, what) => {
    const msg = `Cannot ${what}: no DHCP daemon at "${join(directory, "none.sock")}": the socket does not exist`
    expect(run(verb, { socket: "none.sock" }).json).toEqual({ cniVersion: "1.1.0", code, msg, details: started })
  })

  test("with the socket of a killed daemon, or of another program, the error says so", () => {
    listenAt(join(directory, "left.sock"))[Symbol.dispose]()
    writeFileSync(join(directory, "file.sock"), "")
    mkdirSync(join(directory, "open"))
    chmodSync(join(directory, "open"), 0o777)
    const said = (socket: string) => run("STATUS", { socket }).json.msg.replaceAll(directory, "")
    const none = (socket: string, why: string) => `Cannot lease addresses: no DHCP daemon at "/${socket}"${why}`
    expect(said("left.sock")).toBe(none("left.sock", ": nothing listens there"))
    expect(said("file.sock")).toBe(none("file.sock", ": nothing listens there"))
    const exposed = 'cannot trust a DHCP daemon at "/open/x.sock": all users may write to "/open"'
    expect(said("open/x.sock")).toBe(`Cannot lease addresses: ${exposed}`)
    expect(said("file.sock/x")).toBe(none("file.sock/x", `: connect "/file.sock/x": Not a directory (ENOTDIR)`))
  })

  test.each(["web.sock", "endless.sock"])("the listener on %s is not a daemon", (socket) => {
    const words = `"${join(directory, socket)}" is not the socket of a DHCP daemon`
    expect(run("STATUS", { socket }).json).toMatchObject({ code: 999, msg: `error calling DHCP.STATUS: ${words}` })
    expect(run("DEL", { socket }).json).toMatchObject({ code: 999, msg: `error calling DHCP.Release: ${words}` })
  })

  const call = (answer: string, patienceMs: number) => () => {
    const place = { socketPath: join(directory, "dhcp.sock"), patienceMs }
    const stdin = new TextEncoder().encode(JSON.stringify({ answer }))
    callDaemon(place, "Check", { containerId: "box", netns: "", ifName: "eth0", args: "", path: "", stdin })
  }

  test("that answers in time, the call has failed", async () => {
    const path = join(directory, "dhcp.sock")
    const late = `the daemon at "${path}" did not answer within 0.2 s`
    expect(call("silent", 200)).toThrow(expect.objectContaining({ name: "NoDaemonError", message: late }))
    await nextCall()
    const ended = `the daemon at "${path}" exited before it answered`
    expect(call("gone", 5000)).toThrow(expect.objectContaining({ name: "NoDaemonError", message: ended }))
    await nextCall()
    expect(call("refused", 5000)).toThrow(DaemonError)
    await nextCall()
    expect(() =>
      callDaemon({ socketPath: join(directory, "none.sock"), patienceMs: 100 }, "Check", {} as never),
    ).toThrow(NoDaemonError)
  })
})
