import { expect, test } from "bun:test"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { buildStation, HostNamespace, pluginEnv, Station, TemporaryDirectory } from "../lab/mod.ts"

const leases = 30_000

test("a store of 30,000 leases that another program made is read in 16 MB of memory", async () => {
  await buildStation()
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  await using directory = await TemporaryDirectory.create("cni-large")
  const store = directory.join("large")
  mkdirSync(store)
  for (let at = 2; at < leases + 2; at++) {
    writeFileSync(join(store, `10.88.${at >> 8}.${at & 0xff}`), `0123456789abcdef-${at}\r\neth0`)
  }
  const bin = join(import.meta.dir, "../../dist/bin/host-local")
  const ipam = { type: "host-local", dataDir: directory.path, ranges: [[{ subnet: "10.88.0.0/16" }]] }
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "large", type: "bridge", ipam })
  const env = pluginEnv({ bin, verb: "ADD", containerId: "a", netns: "/run/netns/none", ifName: "eth0" })
  const { stdout, peakKb } = await station.time({ command: [bin], env, input })
  expect(JSON.parse(stdout).ips[0].address).toBe(`10.88.${(leases + 2) >> 8}.${(leases + 2) & 0xff}/16`)
  expect(peakKb).toBeLessThan(16 * 1024)
})
