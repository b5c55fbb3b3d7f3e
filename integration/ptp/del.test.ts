import { expect, test } from "bun:test"
import {
  Attachment,
  builtPlugins,
  expectUnchanged,
  fail,
  HostNamespace,
  isAllocationTrace,
  takeSnapshot,
  usedHost,
} from "../lab/mod.ts"
import { dualStack, ptpNetwork } from "./network.ts"

const config = ptpNetwork({ ...dualStack, ipMasq: true })

test("DEL here takes back what the Go ptp plugin added, its masquerade by iptables included", async () => {
  const { host, pod } = await usedHost("ptp")
  await using _ = host
  // The first rule creates the table and its base chain, which all containers share.
  for (const program of ["iptables", "ip6tables"]) {
    for (const change of ["-A", "-D"]) await host.exec(program, ["-t", "nat", change, "POSTROUTING", "-j", "RETURN"])
  }
  const before = await takeSnapshot(host)
  const keys = { ...config, cniVersion: "1.0.0" }
  await new Attachment(host, pod, keys, { bin: "/usr/lib/cni/ptp", path: "/usr/lib/cni" }).add()
  expect((await host.exec("iptables-save", ["-t", "nat"])).stdout).toContain("MASQUERADE")
  await new Attachment(host, pod, keys, { bin: `${builtPlugins}/ptp` }).del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})

test("STATUS is that of the IPAM plugin", async () => {
  await using host = await HostNamespace.create()
  const attachment = new Attachment(host, await host.addContainer(), config)
  expect(await attachment.run("STATUS")).toMatchObject({ exitCode: 0, stdout: "" })
  expect((await fail(attachment.run("STATUS", { ipam: { type: "no-such-plugin" } }))).msg).toContain("no-such-plugin")
  expect((await fail(attachment.run("STATUS", { ipam: {} }))).code).toBe(7)
})
