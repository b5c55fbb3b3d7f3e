import { test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  builtPlugins,
  expectUnchanged,
  isAllocationTrace,
  takeSnapshot,
  usedHost,
} from "../lab/mod.ts"

test("DEL here takes back what the Go bridge plugin added", async () => {
  const { host, pod, before } = await usedHost("bridge")
  await using _ = host
  const config = bridgeNetwork({ isDefaultGateway: true, cniVersion: "1.0.0" })
  await new Attachment(host, pod, config, { bin: "/usr/lib/cni/bridge", path: "/usr/lib/cni" }).add()
  await new Attachment(host, pod, config, { bin: `${builtPlugins}/bridge` }).del()
  expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
})
