import { expect, test } from "bun:test"
import { fail, mountOver, scaleTimeout, succeed, waitFor } from "../lab/mod.ts"
import { startDnsmasq } from "./servers.ts"
import { Site, startDaemon } from "./site.ts"

const options = ["--dhcp-range=10.1.2.50,10.1.2.90,255.255.255.0,10m"]

test(
  "after a reboot the daemon keeps no lease of before: CHECK says what is missing, DEL and GC succeed, a new container gets an address",
  async () => {
    await using site = await Site.create("bridge")
    await using _server = await startDnsmasq(site.server, site.directory.path, options)
    const { host } = site
    const [deleted, collected] = [await site.attach(), await site.attach()]
    const results = [await deleted.attachment.add(), await collected.attachment.add()]
    const kept = async () =>
      (await host.exec("ls", ["-A", "/var/lib/cni/dhcp"])).stdout.split("\n").filter((name) => name.endsWith(".json"))
    await waitFor(async () => (await kept()).length === 2, "the daemon to keep both leases")

    // After a reboot, only the files on the disk exist, and the boot ID is different.
    await site.daemon.end("SIGKILL")
    for (const { pod } of [deleted, collected]) await host.removeContainer(pod)
    await host.exec("sh", ["-c", "rm -rf /run/cni/*"])
    const bootId = site.directory.join("boot_id")
    await Bun.write(bootId, `${crypto.randomUUID()}\n`)
    await mountOver(host, "/proc/sys/kernel/random/boot_id", bootId)
    site.daemon = await startDaemon(host, ["-timeout", "1s"])

    await succeed(deleted.attachment.run("STATUS"))
    const { msg, details } = await fail(deleted.attachment.check(results[0] ?? {}))
    expect(`${msg}; ${details}`).toContain(deleted.pod.name)
    const next = await site.attach()
    const result = await next.attachment.add()
    for (let times = 0; times < 2; times++) await deleted.attachment.del()
    const valid = [{ containerID: next.pod.name, ifname: "eth0" }]
    await succeed(next.attachment.run("GC", { "cni.dev/valid-attachments": valid }))
    await waitFor(async () => (await kept()).length === 1, "the daemon to keep one lease alone")
    await succeed(next.attachment.check(result))
    await next.attachment.del()
    await waitFor(async () => (await kept()).length === 0, "the daemon to keep no lease")
  },
  scaleTimeout(900_000),
)
