import { expect, test } from "bun:test"
import { expectUnchanged, isAllocationTrace } from "../lab/mod.ts"
import { askFromHost } from "./busybox.ts"
import { Containerd } from "./containerd.ts"

test("a pod has the address that its status shows, and its host port leads to it", async () => {
  await using containerd = await Containerd.create()
  const id = await containerd.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
  const { state, network } = await containerd.podStatus(id)
  expect({ state, network }).toMatchObject({ state: "SANDBOX_READY", network: { ip: "10.85.0.2" } })
  expect(await askFromHost(containerd.host, network.ip, 80)).toBe("web")
  expect(await askFromHost(containerd.host, "127.0.0.1", 8080)).toBe("web")
})

test("a pod can be stopped twice and removed twice, and only the bridge stays", async () => {
  await using containerd = await Containerd.create()
  const run = (name: string) => containerd.runPod(name, { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
  const end = async (id: string) => {
    for (const _ of ["once", "twice"]) await containerd.stopPod(id)
    for (const _ of ["once", "twice"]) await containerd.removePod(id)
  }
  await end(await run("first"))
  const before = await containerd.host.snapshot()
  expect(before.nftables).toEqual([])
  await end(await run("second"))
  expectUnchanged(before, await containerd.host.snapshot(), isAllocationTrace)
  expect(await containerd.podIds()).toEqual([])
})

test("20 pods at once have 20 addresses and 20 ports, and go at once", async () => {
  await using containerd = await Containerd.create()
  await containerd.removePod(await containerd.runPod("warm-up"))
  const before = await containerd.host.snapshot()
  const ports = Array.from({ length: 20 }, (_, index) => 8000 + index)
  const ids = await Promise.all(
    ports.map((hostPort) => containerd.runPod(`pod-${hostPort}`, { portMappings: [{ containerPort: 80, hostPort }] })),
  )
  const addresses = await Promise.all(ids.map(async (id) => (await containerd.podStatus(id)).network.ip))
  expect(new Set(addresses).size).toBe(20)
  for (const port of ports) expect(await askFromHost(containerd.host, "127.0.0.1", port)).toBe(`pod-${port}`)
  await Promise.all(ids.map((id) => containerd.stopPod(id)))
  await Promise.all(ids.map((id) => containerd.removePod(id)))
  expectUnchanged(before, await containerd.host.snapshot(), isAllocationTrace)
})
