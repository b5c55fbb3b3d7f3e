import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { usedFunctions } from "../../scripts/engine.ts"
import { usedNames } from "../../scripts/native.ts"
import { Attachment, bridgeNetwork, builtPlugins, HostNamespace, pluginEnv, Station } from "../lab/mod.ts"

const bin = `${builtPlugins}/bridge`

test("a start touches few pages: what it uses of image and code lies together", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  const job = { command: [bin], env: pluginEnv({ bin, verb: "VERSION" }), input: "" }
  await station.time(job)
  const { faults } = await station.time(job)
  expect(faults).toBeLessThan(70) // 77 before, 56 with
})

test("an ADD and a DEL of bridge with host-local have less than 2.65 MB resident", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const config = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })
  const attachment = new Attachment(host, pod, config, { bin })
  await attachment.add()
  await attachment.del()
  await using station = Station.open(host)
  const input = JSON.stringify(config)
  for (const verb of ["ADD", "DEL"] as const) {
    const env = pluginEnv({ bin, verb, containerId: "footprint", netns: pod.path, ifName: "eth0" })
    const { peakKb } = await station.time({ command: [bin], env, input })
    expect(peakKb).toBeLessThan(2.65 * 1024)
  }
})

test.each([usedFunctions, usedNames])(
  "%s is sorted and names each once, as the maker of images looks for them",
  (file) => {
    const names = readFileSync(file, "utf8").trimEnd().split("\n")
    expect(names).toEqual([...new Set(names)].sort())
  },
)
