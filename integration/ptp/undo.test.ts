import { expect, test } from "bun:test"
import {
  Attachment,
  type Breakage,
  builtPlugins,
  expectUnchanged,
  fail,
  HostNamespace,
  takeSnapshot,
  testBreakages,
  writeSysctl,
} from "../lab/mod.ts"
import { dualStack, ptpNetwork, staticIpam } from "./network.ts"

const everything = { ...dualStack, ipMasq: true }

/** A breakage for each step that only this plugin has. */
const breakages: Breakage[] = [
  {
    step: "there is no IPAM plugin",
    keys: { ipam: undefined },
    code: 7,
    says: 'no "ipam.type"',
    everyAdd: true,
  },
  {
    step: "the gateway is the container's own address",
    keys: { ...everything, ...staticIpam({ address: "10.9.0.5/24", gateway: "10.9.0.5" }), cniVersion: "1.0.0" },
    code: 7,
    says: "Cannot use gateway 10.9.0.5",
    everyAdd: true,
  },
  {
    step: "the host has a route to the address already",
    keys: everything,
    setUp: (host) => host.exec("ip", ["route", "add", "10.9.0.2", "dev", "lo"]),
    code: 999,
    says: 'the host already has a route to it; its interface is "lo"',
    everyAdd: false,
  },
  {
    step: "the host cannot have the gateway's address",
    keys: everything,
    setUp: async (host) => {
      await writeSysctl(host, "net/ipv6/conf/default/disable_ipv6", "1")
      await host.exec("mount", ["-t", "tmpfs", "cni-test", "/proc/sys/net/ipv6"]) // makes all IPv6 settings inaccessible
    },
    code: 999,
    says: "Cannot add gateway fd00:9::1/128",
    everyAdd: false,
  },
]

testBreakages(ptpNetwork, breakages, { path: `${builtPlugins}:/usr/lib/cni` })

test("an IPAM plugin that gives no address is told to release, and everything is as before", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const script = `#!/bin/sh
echo $CNI_COMMAND >> /run/cni/calls
[ $CNI_COMMAND = DEL ] || echo '{"cniVersion":"1.0.0"}'
`
  await host.exec("tee", ["/run/cni/empty"], { input: script })
  await host.exec("chmod", ["+x", "/run/cni/empty"])
  const before = await takeSnapshot(host, [])
  const config = ptpNetwork({ cniVersion: "1.0.0", ipam: { type: "empty" } })
  const { msg } = await fail(new Attachment(host, pod, config, { path: "/run/cni" }).run("ADD"))
  expect(msg).toBe("IPAM plugin returned missing IP config")
  expect((await host.exec("cat", ["/run/cni/calls"])).stdout).toBe("ADD\nDEL\n")
  expectUnchanged(before, await takeSnapshot(host, []))
  expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
})
