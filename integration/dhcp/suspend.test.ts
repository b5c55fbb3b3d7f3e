import { expect, test } from "bun:test"
import { readdir, readFile } from "node:fs/promises"
import { addressesOf, waitFor } from "../lab/mod.ts"
import { Sniffer } from "./packets.ts"
import { startDnsmasq } from "./servers.ts"
import { Site, startDaemon } from "./site.ts"

// The server counts the time of a lease while the client's machine is suspended, and so does CLOCK_BOOTTIME.
// CLOCK_MONOTONIC, which poll(2) uses, does not.

/**
 * Returns a command that runs a program as if the machine had been suspended for some seconds: in its time namespace,
 * only CLOCK_BOOTTIME is ahead.
 */
const suspendedFor = (seconds: number) => ["unshare", "--time", "--boottime", String(seconds), "--fork", "--kill-child"]

test("a daemon that starts after the machine was suspended beyond T1 asks whether the lease still holds", async () => {
  await using site = await Site.create("bridge")
  await using server = await startDnsmasq(site.server, site.directory.path)
  const { pod, attachment } = await site.attach()
  const { ips } = await attachment.add()
  await site.daemon.end("SIGKILL")
  await using sniffer = await Sniffer.start(site.server, "eth0")
  site.daemon = await startDaemon(site.host, ["-timeout", "1s"], suspendedFor(90)) // T1 is after 60 s, the end after 120 s
  const ip = ips[0]?.address.replace("/24", "") ?? ""
  expect(await sniffer.waitFor("Request")).toMatchObject({ source: "0.0.0.0", requestedIp: ip })
  await waitFor(() => server.running.count(/DHCPACK/) >= 2, "the server to say that it does")
  expect(await addressesOf(pod, "eth0")).toEqual([`${ip}/24`])
  expect(sniffer.packets("Discover")).toEqual([])
})

test("a lease that ended while the machine was suspended is not used any more, and another one is asked for", async () => {
  await using site = await Site.create("bridge")
  const server = await startDnsmasq(site.server, site.directory.path)
  const { pod, attachment } = await site.attach()
  const { ips } = await attachment.add()
  const address = ips[0]?.address ?? ""
  await site.daemon.end("SIGKILL")
  await server[Symbol.asyncDispose]()
  await using sniffer = await Sniffer.start(site.server, "eth0")
  site.daemon = await startDaemon(site.host, ["-timeout", "1s"], suspendedFor(600))
  await sniffer.waitFor("Discover")
  expect(await addressesOf(pod, "eth0")).toEqual([])
  await site.daemon.waitFor(new RegExp(`lost ${address}`))
})

test("the daemon waits for T1 by a timer of CLOCK_BOOTTIME", async () => {
  await using site = await Site.create("bridge")
  await using _server = await startDnsmasq(site.server, site.directory.path)
  const { attachment } = await site.attach()
  await attachment.add()
  const secondsLeft = async () => Number(/^it_value: \((\d+), \d+\)$/m.exec(await timerOf(site.daemon.pid))?.[1])
  await waitFor(async () => (await secondsLeft()) > 40, "nothing sooner to be waited for")
  expect(await secondsLeft()).toBeLessThanOrEqual(60)
})

/** Returns the timer of a process, from /proc; proc_pid_fdinfo(5). */
async function timerOf(pid: number): Promise<string> {
  const directory = `/proc/${pid}/fdinfo`
  const texts = await Promise.all((await readdir(directory)).map((fd) => readFile(`${directory}/${fd}`, "utf8")))
  const timers = texts.filter((text) => text.includes("clockid: 7\n")) // CLOCK_BOOTTIME
  expect(timers).toHaveLength(1)
  return timers[0] ?? ""
}
