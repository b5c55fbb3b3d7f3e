/** `dhcp daemon` as a process, from its sources: how it starts and ends, and that it does what is due by itself. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requireDaemon } from "../../../ipam/dhcp/testing/mod.ts"
import { listenAt } from "../../../pkg/libc/mod.ts"
import { addressesOf, HostNamespace, waitFor } from "../../lab/mod.ts"
import { DhcpSite } from "./dhcp-site.fixture.ts"

const plugin = join(import.meta.dir, "../../../ipam/dhcp/main.ts")
let host: HostNamespace
let directory: string
beforeAll(async () => {
  host = await HostNamespace.create("dhcp")
  directory = mkdtempSync(join(tmpdir(), "dhcp-daemon-"))
})
afterAll(async () => {
  await host[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true })
})

/** Its flags for a socket and leases of its own, below the directory of this file. */
const own = (name: string) => [
  "-socketpath",
  join(directory, name, "sock"),
  "-statedir",
  join(directory, name, "leases"),
]

/** A daemon, what it has written, and how it ended. */
class Daemon implements AsyncDisposable {
  text = ""
  readonly #child
  readonly #reading: Promise<void>

  constructor(flags: readonly string[], variables = "true", handedOver?: number) {
    const command = ["sh", "-c", `${variables}; exec "$@"`, "sh", process.execPath, plugin, "daemon", ...flags]
    const stdio: ["ignore", "ignore", "pipe", ...number[]] = ["ignore", "ignore", "pipe"]
    if (handedOver !== undefined) stdio.push(handedOver)
    this.#child = Bun.spawn(host.commandLine(command), { stdio })
    this.#reading = this.#read()
  }

  async #read(): Promise<void> {
    for await (const piece of this.#child.stderr as ReadableStream<Uint8Array>)
      this.text += new TextDecoder().decode(piece)
  }

  /** One that serves. */
  static async serving(...args: ConstructorParameters<typeof Daemon>): Promise<Daemon> {
    const daemon = new Daemon(...args)
    await waitFor(() => daemon.text.includes("resumed\n") || daemon.#child.exitCode !== null, "it to serve")
    return daemon
  }

  get pid(): number {
    return this.#child.pid
  }

  /** Its exit code. */
  async ended(signal?: "SIGKILL"): Promise<number> {
    if (signal) this.#child.kill(signal)
    const code = await this.#child.exited
    await this.#reading
    return code
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ended("SIGKILL")
  }
}

const isServed = (name: string) => requireDaemon({ socketPath: join(directory, name, "sock"), patienceMs: 20_000 })

// How it ends is for the built one to show: in this engine other threads get the signal.
test("it serves, and says so; its pidfile is its own, and it may open as many files as the system lets it", async () => {
  const pidFile = join(directory, "pid")
  writeFileSync(pidFile, "of an earlier one, which is longer")
  await using daemon = await Daemon.serving([...own("serves"), "-pidfile", pidFile])
  isServed("serves")
  expect(daemon.text).toBe(`dhcp daemon: serving "${join(directory, "serves/sock")}", 0 leases resumed\n`)
  expect(readFileSync(pidFile, "latin1")).toBe(String(daemon.pid))
  expect([statSync(pidFile).mode & 0o777, statSync(join(directory, "serves")).mode & 0o777]).toEqual([0o644, 0o700])
  const limits = readFileSync(`/proc/${daemon.pid}/limits`, "latin1")
  const [, soft, hard] = /^Max open files\s+(\d+)\s+(\d+)/m.exec(limits) ?? []
  expect(Number(soft)).toBeGreaterThanOrEqual(Math.min(Number(hard), 65_536))
})

test("it takes the place of one that was killed, and not of one that serves", async () => {
  mkdirSync(join(directory, "again"), { mode: 0o700 })
  const left = listenAt(join(directory, "again/sock"))
  await using second = new Daemon(own("again"))
  expect(await second.ended()).toBe(1)
  expect(second.text).toBe(`Cannot run the DHCP daemon: another daemon listens on "${directory}/again/sock"\n`)
  left[Symbol.dispose]()
  await using _third = await Daemon.serving(own("again"))
  isServed("again")
})

describe("systemd's socket", () => {
  test("is served", async () => {
    mkdirSync(join(directory, "handed"), { mode: 0o700 })
    using socket = listenAt(join(directory, "handed/sock"))
    await using daemon = await Daemon.serving(own("handed"), "export LISTEN_PID=$$ LISTEN_FDS=1", socket.fd)
    expect(daemon.text).toBe("dhcp daemon: serving the socket handed over, 0 leases resumed\n")
    isServed("handed")
  })

  test.each([
    ["for another process", "export LISTEN_PID=1 LISTEN_FDS=1"],
    ["of none", "export LISTEN_PID=$$ LISTEN_FDS=0"],
  ])("%s does not exist", async (of, variables) => {
    await using _daemon = await Daemon.serving(own(of), variables)
    isServed(of)
  })
})

const usage = `Usage: dhcp daemon [flags]
  -socketpath: listen on this Unix socket (default /run/cni/dhcp.sock)
  -pidfile: write the process' number into this file; an absolute path
  -hostprefix: put this before the paths of the socket, of namespaces and of leases
  -statedir: keep leases in this directory (default /var/lib/cni/dhcp)
  -broadcast: have servers broadcast their answers
  -timeout: wait this long for the first answer (default 10s)
  -resendmax: wait this long between two attempts, at most (default 62s)
  -resendtimeout: give up ADD after this time (default 208s)
`

test.each([
  ["-nonsense", "true", 2, `unknown flag -nonsense\n${usage}`],
  ["-pidfile x", "true", 1, 'Cannot run the DHCP daemon: cannot write the pidfile "x": path not absolute\n'],
  [
    "",
    "export LISTEN_PID=$$ LISTEN_FDS=2",
    1,
    "Cannot run the DHCP daemon: Too many (2) FDs passed through socket activation\n",
  ],
  [
    "-pidfile /proc/none",
    "true",
    1,
    'Cannot run the DHCP daemon: open "/proc/none": No such file or directory (ENOENT)\n',
  ],
])("%j, %s: it does not start: code %d", async (flags, variables, code, text) => {
  await using daemon = new Daemon([...own("refused"), ...flags.split(" ").filter(Boolean)], variables)
  expect(await daemon.ended()).toBe(code)
  expect(daemon.text).toBe(text)
})

test("leases and a socket that others could change are not for it", async () => {
  mkdirSync(join(directory, "open"))
  await host.exec("chmod", ["777", join(directory, "open")])
  const why = `all users may write to "${directory}/open"`
  for (const flags of [
    ["-socketpath", join(directory, "open/sock")],
    ["-statedir", join(directory, "open/leases")],
  ]) {
    await using daemon = new Daemon([...own("trusting"), ...flags])
    expect(await daemon.ended()).toBe(1)
    expect(daemon.text).toStartWith(`Cannot run the DHCP daemon: Cannot trust "${directory}/open/`)
    expect(daemon.text).toEndWith(`: ${why}\n`)
  }
})

test("it leases, renews when it is time, and goes on after the next one has started", async () => {
  using site = await DhcpSite.create(host)
  // The first answer may be late on a busy machine: a client that asked again would be heard where the next message is
  // expected.
  const flags = [...own("leasing"), "-timeout", "60s"]
  let daemon = await Daemon.serving(flags)
  const call = (verb: string) => {
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: "box",
      CNI_NETNS: site.pod.path,
      CNI_IFNAME: "eth0",
      CNI_PATH: "/x",
    }
    const ipam = { type: "dhcp", daemonSocketPath: join(directory, "leasing/sock") }
    const stdin = new Blob([JSON.stringify({ cniVersion: "1.1.0", name: "net", type: "dhcp", ipam })])
    return Bun.spawn([process.execPath, plugin], { env, stdin, stdout: "pipe" })
  }
  // RFC 2132, 9.11 and 9.12: it is renewed soon, and neither rebound nor over before the test is.
  const short = { 51: "00000e10", 58: "00000002", 59: "00000c4e" }
  const add = call("ADD")
  site.send(site.answer("OFFER", site.hear("DISCOVER"), "10.1.2.3", short))
  site.send(site.answer("ACK", site.hear("REQUEST"), "10.1.2.3", short))
  expect(await new Response(add.stdout).json()).toMatchObject({
    ips: [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }],
  })
  const renewal = site.hear("REQUEST")
  expect(renewal.from).toBe("10.1.2.3")
  site.send(site.answer("ACK", renewal, "10.1.2.4", short))
  await waitFor(async () => (await addressesOf(site.pod, "eth0")).includes("10.1.2.4/24"), "the other address")
  const leases = join(directory, "leasing/leases")
  const records = () => readdirSync(leases).filter((name) => !name.startsWith(".")) // those are being written
  const journal = () => records().map((name) => readFileSync(join(leases, name), "utf8"))
  await waitFor(() => journal().some((text) => text.includes('"10.1.2.4/24"')), "the other address in the journal")
  await daemon.ended("SIGKILL")
  daemon = await Daemon.serving(flags)
  await using _last = daemon
  expect(daemon.text).toContain(", 1 leases resumed\n")
  expect(site.hear("REQUEST").options[50] ?? "0a010204").toBe("0a010204")
  const del = call("DEL")
  expect(await del.exited).toBe(0)
  let heard = ""
  while (heard !== "07") heard = site.hearAny().options[53] ?? ""
  expect(readdirSync(leases)).toEqual(["lock"])
})
