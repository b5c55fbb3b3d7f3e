import { beforeAll, expect, test } from "bun:test"
import { readdirSync, statSync } from "node:fs"
import { Attachment, bridgeNetwork, buildStation, builtPlugins, HostNamespace, pluginEnv, Station } from "../lab/mod.ts"

const built = `${builtPlugins}/bridge`

beforeAll(buildStation)

test("the files of all plugins have less than 47 MB: nothing that is free is in an image", () => {
  const sizes = readdirSync(builtPlugins).map((name) => statSync(`${builtPlugins}/${name}`).size)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(47e6) // measured 45.3 million; 49.4 million if it frees memory
})

test("a start touches few pages", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  const job = { command: [built], env: pluginEnv({ bin: built, verb: "VERSION" }), input: "" }
  await station.time(job)
  const { faults } = await station.time(job)
  expect(faults).toBeLessThan(80) // measured 57 to 66
})

test("an ADD and a DEL of bridge with host-local have less than 3.2 MB resident", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  // The executable is copied to a tmpfs, which has small pages. On other file systems the result depends on earlier
  // reads and writes of the file.
  await host.exec("cp", [built, `${builtPlugins}/host-local`, "/run/cni"])
  const bin = "/run/cni/bridge"
  const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })
  const attachment = new Attachment(host, pod, config, { bin })
  await attachment.add()
  await attachment.del()
  await using station = Station.open(host)
  const input = JSON.stringify(config)
  for (const verb of ["ADD", "DEL"] as const) {
    const env = pluginEnv({ bin, verb, containerId: "footprint", netns: pod.path, ifName: "eth0" })
    const { peakKb } = await station.time({ command: [bin], env, input })
    expect(peakKb).toBeLessThan(3.2 * 1024) // measured 3,048 KB for both
  }
})
