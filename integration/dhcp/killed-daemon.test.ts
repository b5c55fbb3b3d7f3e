import { expect, test } from "bun:test"
import { Attachment, Chance, extent, newest, scaleTimeout, seed, tellFigure, waitFor } from "../lab/mod.ts"
import { startDnsmasq } from "./servers.ts"
import { Site, startDaemon } from "./site.ts"

/** The number of times that the daemon is killed. */
const kills = extent(12, 200)
const options = ["--dhcp-range=10.1.2.50,10.1.2.90,255.255.255.0,10m", "--dhcp-option=option:router,10.1.2.1"]
const addressOf = (result: { ips: { address: string }[] }) => result.ips[0]?.address.split("/")[0] ?? ""

/** Returns the duration of an undisturbed ADD in milliseconds. */
async function durationOfCall([attachment]: readonly Attachment[]): Promise<number> {
  if (!attachment) throw new Error("no container")
  const { exitCode, durationMs } = await attachment.run("ADD")
  expect(exitCode).toBe(0)
  await attachment.del()
  return durationMs
}

/** Creates containers with one interface each, and an attachment of only dhcp for each. */
async function containers(site: Site, count: number): Promise<Attachment[]> {
  const attachments: Attachment[] = []
  for (let at = 0; at < count; at++) {
    const pod = await site.host.addContainer()
    const peer = ["type", "veth", "peer", "name", "eth0", "netns", pod.name]
    await site.host.exec("ip", ["link", "add", `p${at}`, "up", "master", "br-lab", ...peer])
    const config = { cniVersion: newest, name: "net", type: "dhcp", ipam: { type: "dhcp" } }
    attachments.push(new Attachment(site.host, pod, config))
  }
  return attachments
}

test(
  `a daemon that is killed at ${kills} random moments of ADD and DEL leaves the server with the leases of those that are attached`,
  async () => {
    await using site = await Site.create("bridge", ["-timeout", "1s"])
    await using server = await startDnsmasq(site.server, site.directory.path, options)
    const attachments = await containers(site, 4)
    const chance = new Chance(seed)
    // Longer than an ADD takes, so that the daemon is also killed after an ADD. Every ADD takes longer on a busy
    // machine.
    const longestMs = Math.max(60, 2 * (await durationOfCall(attachments)))
    const attached = new Map<Attachment, string>()
    const outcomes = { ADD: 0, DEL: 0 }
    for (let round = 0; round < kills; round++) {
      const attachment = attachments[round % attachments.length]
      if (!attachment) throw new Error("no container")
      const verb = attached.has(attachment) ? "DEL" : "ADD"
      const call = attachment.run(verb)
      await new Promise((resolve) => setTimeout(resolve, chance.below(longestMs)))
      await site.daemon.end("SIGKILL")
      const isWithout = chance.below(2) === 0 // the plugin then finds another daemon or none
      if (!isWithout) site.daemon = await startDaemon(site.host, ["-timeout", "1s"])
      const { exitCode, json } = await call
      outcomes[verb] += exitCode === 0 ? 1 : 0
      if (verb === "ADD" && exitCode === 0) attached.set(attachment, addressOf(json as never))
      else {
        // A runtime runs DEL after a failed ADD, and repeats a failed DEL.
        await waitFor(async () => (await attachment.run("DEL")).exitCode === 0, "DEL to succeed")
        attached.delete(attachment)
      }
      if (isWithout) site.daemon = await startDaemon(site.host, ["-timeout", "1s"])
    }
    const leased = async () => (await server.leases()).split("\n").flatMap((line) => line.split(" ")[2] ?? [])
    await waitFor(
      async () => expect((await leased()).sort()).toEqual([...attached.values()].sort()) === undefined,
      "the server's leases to be those of the attached",
    )
    const { stdout } = await site.host.exec("ls", ["-A", "/var/lib/cni/dhcp"])
    expect(stdout.split("\n").filter((name) => name.endsWith(".json"))).toHaveLength(attached.size)
    for (const [attachment, address] of attached) expect(addressOf(await attachment.add())).toBe(address)
    expect(outcomes.ADD).toBeGreaterThan(0)
    await tellFigure({ what: "dhcp's daemon killed during ADD and DEL", tried: kills, held: kills })
  },
  scaleTimeout(900_000 + kills * 4_000),
)
