import { beforeAll, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { engineSource, engineSources, hostDirectory, usedFunctions } from "../../scripts/engine.ts"
import { Attachment, bridgeNetwork, buildStation, builtPlugins, HostNamespace, pluginEnv, Station } from "../lab/mod.ts"

const built = `${builtPlugins}/bridge`

beforeAll(buildStation)

test("a start touches few pages: what it uses of image and code lies together", async () => {
  await using host = await HostNamespace.create()
  await using station = Station.open(host)
  const job = { command: [built], env: pluginEnv({ bin: built, verb: "VERSION" }), input: "" }
  await station.time(job)
  const { faults } = await station.time(job)
  expect(faults).toBeLessThan(60) // 77 before, 53 to 57 with
})

test("an ADD and a DEL of bridge with host-local have less than 2.53 MB resident", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  // From a tmpfs, whose pages are small: of a file in a file system it depends on who has read or written it how.
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
    expect(peakKb).toBeLessThan(2.53 * 1024) // 2,552 and 2,460 KB
  }
})

test("the list of C functions names those of the engine and the host", async () => {
  const source = await engineSource()
  const files = [
    ...engineSources.map((name) => join(source, name)),
    ...new Bun.Glob("*.c").scanSync({ cwd: hostDirectory, absolute: true }),
  ]
  const names = readFileSync(usedFunctions, "utf8").trimEnd().split("\n")
  const words = new Set(files.flatMap((file) => readFileSync(file, "utf8").match(/\w+/g) ?? []))
  expect(names.filter((name) => !words.has(name)).length).toBeLessThan(0.05 * names.length)
})
