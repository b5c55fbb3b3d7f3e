import { expect, test } from "bun:test"
import { expectUnchanged, isAllocationTrace } from "../lab/mod.ts"
import { imageName } from "./busybox.ts"
import { Containerd } from "./containerd.ts"

test("`ctr run --cni` runs a container on the network, and its removal leaves only the bridge", async () => {
  await using containerd = await Containerd.create()
  const run = async (name: string, ...command: string[]) => {
    const flags = ["--cni", "--cpu-shares", "0", "--snapshotter", "native"]
    return (await containerd.ctr("run", ...flags, "--rm", imageName, name, "/bin/busybox", ...command)).stdout
  }
  expect(await run("first", "ip", "-o", "-4", "address", "show", "eth0")).toContain("inet 10.85.0.2/16")
  const before = await containerd.host.snapshot()
  expect(await run("second", "ip", "route")).toContain("default via 10.85.0.1 dev eth0")
  expect(await run("third", "cat", "/proc/sys/net/ipv4/conf/eth0/arp_filter")).toBe("1\n")
  expectUnchanged(before, await containerd.host.snapshot(), isAllocationTrace)
  expect(before.nftables).toEqual([])
})
