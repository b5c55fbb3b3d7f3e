import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { chmod, rm } from "node:fs/promises"
import { type Change, expectUnchanged, isAllocationTrace, waitFor } from "../lab/mod.ts"
import { askFromHost } from "./busybox.ts"
import { binDir, Containerd, installOurs } from "./containerd.ts"
import { containerdNetwork } from "./networks.ts"
import { collect } from "./pod-cases.ts"

/**
 * A chained plugin that returns prevResult unchanged. If /run/hold exists, ADD first creates /run/held, and waits until
 * /run/hold is deleted.
 */
const hold = `#!${process.execPath}
const { existsSync, readFileSync, writeFileSync } = require("node:fs")
const { cniVersion, prevResult } = JSON.parse(readFileSync(0, "utf8"))
const command = process.env.CNI_COMMAND
if (command === "VERSION") console.log(JSON.stringify({ cniVersion, supportedVersions: ["1.0.0", "1.1.0"] }))
if (command === "ADD") {
  if (existsSync("/run/hold")) writeFileSync("/run/held", "")
  while (existsSync("/run/hold")) Bun.sleepSync(20)
  console.log(JSON.stringify(prevResult))
}
`

/** Creates containerd with this plugin at the end of the chain. */
function createWithHold(): Promise<Containerd> {
  const { plugins, ...network } = containerdNetwork
  return Containerd.create({ ...network, plugins: [...plugins, { type: "hold" }] }, async (host) => {
    await installOurs(host)
    await host.write(`${binDir}/hold`, hold)
    await chmod(host.file(`${binDir}/hold`), 0o755)
  })
}

/** Reports whether a change is the pod's namespace or the cached result for `lo`. containerd removes both. */
function isOfContainerd({ section, line }: Change): boolean {
  return section === "/run/netns" || line.startsWith("/var/lib/cni/results/cni-loopback-")
}

test("when containerd is killed between ADD and its save, `cni gc --auto` removes what it does not know of", async () => {
  await using containerd = await createWithHold()
  const { host } = containerd
  const alive = await containerd.runPod("alive", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
  const before = await host.snapshot()
  await host.write("/run/hold", "")
  const lost = containerd.runPod("lost", { portMappings: [{ containerPort: 80, hostPort: 8081 }] }).catch(String)
  await waitFor(() => existsSync(host.file("/run/held")), "the end of the chain")
  await containerd.kill()
  await rm(host.file("/run/hold"))
  expect(await lost).toContain("UNAVAILABLE")
  await containerd.start()
  const [half] = (await containerd.podIds()).filter((id) => id !== alive)
  expect((await host.exec("nft", ["list", "ruleset"])).stdout).toContain("8081")
  await collect(host)
  expectUnchanged(before, await host.snapshot(), (change) => isAllocationTrace(change) || isOfContainerd(change))
  expect(await containerd.podStatus(alive)).toMatchObject({ state: "SANDBOX_READY" })
  expect(await askFromHost(host, "127.0.0.1", 8080)).toBe("alive")
  if (half === undefined) throw new Error("containerd has no record of the pod")
  await containerd.stopPod(half)
  await containerd.removePod(half)
  expectUnchanged(before, await host.snapshot(), isAllocationTrace)
})
