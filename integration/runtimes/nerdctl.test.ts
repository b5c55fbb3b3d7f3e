/** Tests nerdctl, which creates networks from bridge, portmap, firewall and tuning, and calls the plugins itself. */
import { expect, test } from "bun:test"
import { askFromHost, askName, imageName } from "../interop/busybox.ts"
import { Containerd } from "../interop/containerd.ts"
import { expectAnswersThroughFlushes } from "../interop/flushes.ts"
import { runtimeEnv } from "../interop/runtime-host.ts"
import { type Change, expectUnchanged, isAllocationTrace } from "../lab/mod.ts"

/** Returns a function that runs nerdctl on a host with containerd. nerdctl keeps its state in memory. */
function nerdctlOn({ host }: Containerd) {
  return async (...args: string[]) => {
    const places = ["--data-root", "/run/nerdctl", "--snapshotter", "native", "--cgroup-manager", "cgroupfs"]
    return (await host.exec("nerdctl", [...places, ...args], { env: { ...runtimeEnv, HOME: "/run" } })).stdout.trim()
  }
}

/** Returns the arguments that start a container in the background. The container's hostname is its name. */
const runArguments = (network: string, name: string, ...more: string[]) => {
  const named = ["--network", network, "--name", name, "--hostname", name]
  return ["run", "--detach", "--pull", "never", ...named, ...more, imageName]
}

test("nerdctl runs containers on networks of its own: names, ports, isolation; their removal leaves nothing", async () => {
  await using containerd = await Containerd.create()
  const nerdctl = nerdctlOn(containerd)
  expect(await nerdctl("version")).toContain("containerd")
  const before = await containerd.host.snapshot()
  await nerdctl("network", "create", "--subnet", "10.61.0.0/24", "one")
  await nerdctl("network", "create", "--subnet", "10.62.0.0/24", "two")
  const run = (...of: Parameters<typeof runArguments>) => nerdctl(...runArguments(...of))
  await run("one", "web", "--publish", "8080:80")
  await run("one", "near")
  await run("two", "far")
  const address = (name: string) =>
    nerdctl("inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name)
  const web = await address("web")
  expect(web).toMatch(/^10\.61\.0\./)
  expect(await askFromHost(containerd.host, "127.0.0.1", 8080)).toBe("web")
  expect(await askFromHost(containerd.host, web, 80)).toBe("web")
  expect(await nerdctl("exec", "near", ...askName(web, 80))).toBe("web")
  await expect(nerdctl("exec", "far", ...askName(web, 80))).rejects.toThrow() // ingressPolicy same-bridge
  await nerdctl("rm", "--force", "web", "near", "far")
  await nerdctl("network", "rm", "one", "two")
  const isForwarding = ({ line }: Change) => /^net\/ipv4\/(conf\/\w+\/forwarding|ip_forward) /.test(line)
  expectUnchanged(
    before,
    await containerd.host.snapshot(),
    (change) => isAllocationTrace(change) || isForwarding(change),
  )
})

test("nerdctl: a published port answers again after each flush of all rules, while the listener runs", async () => {
  await using containerd = await Containerd.create()
  const nerdctl = nerdctlOn(containerd)
  await nerdctl("network", "create", "--subnet", "10.61.0.0/24", "one")
  await nerdctl(...runArguments("one", "web", "--publish", "8080:80"))
  await expectAnswersThroughFlushes(containerd.host)
  await nerdctl("rm", "--force", "web")
})
