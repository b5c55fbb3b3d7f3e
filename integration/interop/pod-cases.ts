import { expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, expectUnchanged, isAllocationTrace, scaleTimeout } from "../lab/mod.ts"
import { askFromHost } from "./busybox.ts"
import { binDir } from "./containerd.ts"
import type { PodRuntime } from "./cri.ts"
import { containerdNetwork } from "./networks.ts"
import type { RuntimeHost } from "./runtime-host.ts"

const limitMs = scaleTimeout(300_000)

/**
 * Runs `cni gc --auto` as the host's operator. `--bin-dir` is necessary, because the machine's own containerd
 * configuration names another directory.
 */
export async function collect(host: RuntimeHost): Promise<void> {
  await host.exec(join(builtPlugins, "../cni"), ["gc", containerdNetwork.name, "--auto", "--bin-dir", binDir])
}

/** Defines the tests of pods on `containerdNetwork` with the runtime that `create` starts. */
export function testPods(name: string, create: () => Promise<PodRuntime>): void {
  test(
    `${name}: a pod has the address that its status shows, and its host port leads to it`,
    async () => {
      await using runtime = await create()
      const id = await runtime.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
      const { state, network } = await runtime.podStatus(id)
      expect({ state, network }).toMatchObject({ state: "SANDBOX_READY", network: { ip: "10.85.0.2" } })
      expect(await askFromHost(runtime.host, network.ip, 80)).toBe("web")
      expect(await askFromHost(runtime.host, runtime.publishedAt, 8080)).toBe("web")
    },
    limitMs,
  )

  test(
    `${name}: a pod can be stopped twice and removed twice, and only the bridge stays`,
    async () => {
      await using runtime = await create()
      const run = (pod: string) => runtime.runPod(pod, { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
      const end = async (id: string) => {
        for (const _ of ["once", "twice"]) await runtime.stopPod(id)
        for (const _ of ["once", "twice"]) await runtime.removePod(id)
      }
      await end(await run("first"))
      const before = await runtime.host.snapshot()
      await end(await run("second"))
      expectUnchanged(before, await runtime.host.snapshot(), isAllocationTrace)
      expect(await runtime.podIds()).toEqual([])
    },
    limitMs,
  )

  test(
    `${name}: 20 pods at once have 20 addresses and 20 ports, and go at once`,
    async () => {
      await using runtime = await create()
      const warmUp = await runtime.runPod("warm-up", { portMappings: [{ containerPort: 80, hostPort: 7999 }] })
      await runtime.stopPod(warmUp)
      await runtime.removePod(warmUp)
      const before = await runtime.host.snapshot()
      const ports = Array.from({ length: 20 }, (_, index) => 8000 + index)
      const ids = await Promise.all(
        ports.map((hostPort) => runtime.runPod(`pod-${hostPort}`, { portMappings: [{ containerPort: 80, hostPort }] })),
      )
      const addresses = await Promise.all(ids.map(async (id) => (await runtime.podStatus(id)).network.ip))
      expect(new Set(addresses).size).toBe(20)
      for (const port of ports) expect(await askFromHost(runtime.host, runtime.publishedAt, port)).toBe(`pod-${port}`)
      await Promise.all(ids.map((id) => runtime.stopPod(id)))
      await Promise.all(ids.map((id) => runtime.removePod(id)))
      expectUnchanged(before, await runtime.host.snapshot(), isAllocationTrace)
    },
    limitMs,
  )

  test(
    `${name}: pods outlive a killed daemon, and end as if nothing had been`,
    async () => {
      await using runtime = await create()
      const run = (pod: string) => runtime.runPod(pod, { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
      const warmUp = await run("warm-up")
      await runtime.stopPod(warmUp)
      await runtime.removePod(warmUp)
      const before = await runtime.host.snapshot()
      const id = await run("web")
      await runtime.kill()
      await runtime.start()
      expect(await runtime.podStatus(id)).toMatchObject({ state: "SANDBOX_READY", network: { ip: "10.85.0.3" } })
      await collect(runtime.host)
      expect(await askFromHost(runtime.host, runtime.publishedAt, 8080)).toBe("web")
      await runtime.stopPod(id)
      await runtime.removePod(id)
      expectUnchanged(before, await runtime.host.snapshot(), isAllocationTrace)
    },
    limitMs,
  )
}
