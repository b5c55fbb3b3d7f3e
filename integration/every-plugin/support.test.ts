/** Tests the claims of docs/install.md about unusual hosts. */
import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  expectUnchanged,
  fail,
  HostNamespace,
  isAllocationTrace,
  isSharedBridge,
  takeSnapshot,
  writeSysctl,
} from "../lab/mod.ts"

const network = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })

async function hostWithReadOnlySettings({ forwarding }: { forwarding: "0" | "1" }) {
  const host = await HostNamespace.create()
  const pod = await host.addContainer()
  await writeSysctl(host, "net/ipv4/ip_forward", forwarding)
  await host.exec("mount", ["--bind", "/proc/sys", "/proc/sys"])
  await host.exec("mount", ["-o", "remount,bind,ro", "/proc/sys"])
  return { host, pod }
}

test("where /proc/sys is read-only, what is right already is not an obstacle", async () => {
  const { host, pod } = await hostWithReadOnlySettings({ forwarding: "1" })
  await using _ = host
  const attachment = new Attachment(host, pod, network)
  expect(await attachment.check(await attachment.add())).toMatchObject({ exitCode: 0 })
})

test("where /proc/sys is read-only, a setting that is needed and wrong is an error; nothing but the bridge is left", async () => {
  const { host, pod } = await hostWithReadOnlySettings({ forwarding: "0" })
  await using _ = host
  const before = await takeSnapshot(host)
  const error = await fail(new Attachment(host, pod, network).run("ADD"))
  expect(error).toMatchObject({ code: 999, msg: 'Cannot enable forwarding by "net/ipv4/ip_forward"' })
  expect(error.details).toContain("Read-only file system")
  expectUnchanged(before, await takeSnapshot(host), (change) => isAllocationTrace(change) || isSharedBridge(change))
})

/** The arguments of unshare(1) with which an unprivileged user becomes root in new namespaces. */
const asUser = ["--user", "--map-root-user", "--net", "--mount", "sh", "-ec"]

test("the root of a user namespace can attach, check and detach in network namespaces of its own", async () => {
  await using host = await HostNamespace.create()
  const script = `
    mount -t tmpfs tmpfs /run && mount -t tmpfs -o mode=755 tmpfs /var/lib/cni && mkdir -p /run/netns /run/net.d
    printf %s "$1" > /run/net.d/10-lab.conflist
    ip netns add pod
    run() { "$2/../cni" "$1" lab pod --conf-dir /run/net.d --bin-dir "$2"; }
    run add "$2" >&2
    run check "$2" >&2
    ip -netns pod -j -4 address show dev eth0
    run del "$2" >&2
    ip -j link show type veth`
  const { cniVersion, name, ...plugin } = network
  const conflist = JSON.stringify({ cniVersion, name, plugins: [plugin] })
  const { stdout } = await host.exec("unshare", [...asUser, script, "sh", conflist, builtPlugins])
  const [address = "", links = ""] = stdout.trim().split("\n")
  expect(JSON.parse(address)[0].addr_info).toMatchObject([{ local: "10.22.0.2", prefixlen: 16 }])
  expect(JSON.parse(links)).toEqual([])
})
