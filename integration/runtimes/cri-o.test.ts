/** Tests CRI-O, which maps ports itself, calls CHECK at each start, and deletes unknown attachments with GC. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { binDir } from "../interop/containerd.ts"
import { containerdNetwork } from "../interop/networks.ts"
import { testPods } from "../interop/pod-cases.ts"
import { confDir } from "../interop/runtime-host.ts"
import { builtPlugins, expectUnchanged, isAllocationTrace } from "../lab/mod.ts"
import { CriO } from "./cri-o.ts"

const tool = join(builtPlugins, "../cni")

testPods("CRI-O", () => CriO.create())

test("CRI-O collects at its start what is attached and not known to it", async () => {
  await using crio = await CriO.create()
  const { host } = crio
  const known = await crio.runPod("known")
  const before = await host.snapshot()
  await host.exec("ip", ["netns", "add", "lost"])
  const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }]
  const env = { CAP_ARGS: JSON.stringify({ portMappings }), PATH: "/usr/bin" }
  await host.exec(tool, ["add", "pods", "/run/netns/lost", "--bin-dir", binDir, "--cache-dir", "/run/elsewhere"], {
    env,
  })
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).toContain("8080")
  await crio.kill()
  await crio.start()
  await host.exec("ip", ["netns", "delete", "lost"])
  expectUnchanged(before, await host.snapshot(), isAllocationTrace)
  expect((await crio.podStatus(known)).state).toBe("SANDBOX_READY")
})

test("CRI-O without a network is asked by cni install whether it has one, and runs pods then", async () => {
  await using crio = await CriO.create()
  const { host } = crio
  await host.exec("rm", [`${confDir}/10-pods.conflist`])
  await host.write("/run/new/10-pods.conflist", containerdNetwork)
  const places = ["--bin-dir", binDir, "--conf-dir", confDir, "--config", "/run/new/10-pods.conflist"]
  const { exitCode, stderr } = await host.tryExec(tool, ["install", ...places])
  expect([exitCode, stderr]).toEqual([0, expect.stringContaining("crictl info")])
  expect((await crio.podStatus(await crio.runPod("web"))).network.ip).toMatch(/^10\.85\.0\./)
})
