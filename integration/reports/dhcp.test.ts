/** Tests public bug reports about DHCP: the reported steps, and the required outcome. */
import { expect, test } from "bun:test"
import { startDhcpd } from "../dhcp/servers.ts"
import { Site } from "../dhcp/site.ts"
import { linkOf, waitFor } from "../lab/mod.ts"

const changes = "/sys/class/net/eth0-nic/carrier_changes"

test("multus#1466: the link that a virtual machine's launcher renamed and put on a bridge stays up when its lease ends", async () => {
  await using site = await Site.create("bridge")
  await using _server = await startDhcpd(site.server, site.path("server"))
  const { pod, attachment } = await site.attach()
  await attachment.add()
  const lines = [
    "link set eth0 down",
    "link set eth0 name eth0-nic address 02:00:00:14:66:01",
    "addr flush dev eth0-nic",
    "link add k6t-eth0 type bridge",
    "link set eth0-nic master k6t-eth0",
    "link set eth0-nic up",
    "link set k6t-eth0 up",
  ]
  await pod.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  const isUp = async () => (await linkOf(pod, "eth0-nic")).operstate === "UP"
  await waitFor(isUp, "the link to be up")
  const { stdout: before } = await pod.exec("cat", [changes])
  await waitFor(() => site.daemon.count(/lost 10\.1\.2\./) > 0, "the end of the lease")
  // The daemon brings the interface up before it sends. The kernel counts how often the interface went down.
  expect((await pod.exec("cat", [changes])).stdout).toBe(before)
  expect(await isUp()).toBe(true)
  await attachment.del()
})
