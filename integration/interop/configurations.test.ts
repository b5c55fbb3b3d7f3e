/** Tests lint, diff, dry-run and explain on nodes with networks and containers of podman or containerd. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, type Output, programEnv } from "../lab/mod.ts"
import { nameServer } from "./busybox.ts"
import { binDir, Containerd } from "./containerd.ts"
import { Podman } from "./podman.ts"
import { confDir, type RuntimeHost } from "./runtime-host.ts"

const cni = (host: RuntimeHost, pluginDir: string, ...args: string[]): Promise<Output> =>
  host.tryExec(join(builtPlugins, "../cni"), args, {
    env: { ...programEnv, NETCONFPATH: confDir, CNI_PATH: pluginDir },
  })

async function rulesOf(host: RuntimeHost, pluginDir: string): Promise<[string, string][]> {
  const { stdout } = await cni(host, pluginDir, "lint", "--json")
  const { findings } = JSON.parse(stdout) as { findings: { rule: string; severity: string }[] }
  return findings.map(({ rule, severity }) => [rule, severity])
}

async function differences(
  host: RuntimeHost,
  pluginDir: string,
  network: string,
  netns: string,
  id: string,
): Promise<string[]> {
  const { stdout, stderr } = await cni(host, pluginDir, "diff", network, netns, "--container-id", id, "--json")
  expect(stderr).toBe("")
  return (JSON.parse(stdout) as { differences: { what: string }[] }).differences.map(({ what }) => what)
}

test("podman: its network has no fault, its container is as made, the next one's address is foretold, its error explained", async () => {
  await using podman = await Podman.create()
  const { host } = podman
  await podman.start("web", nameServer, "--publish", "8080:80")
  const inspect = (what: string) => podman.run("inspect", "--format", `{{.${what}}}`, "web")
  const [id, netns] = [await inspect("Id"), await inspect("NetworkSettings.SandboxKey")]
  // The network's version has no STATUS. Its sysctl names eth0, which is podman's first interface.
  expect(await rulesOf(host, builtPlugins)).toEqual([["old-version", "info"]])
  expect(await differences(host, builtPlugins, "podman", netns, id)).toEqual([])

  const { stdout } = await cni(host, builtPlugins, "dry-run", "ADD", "podman", "--json")
  expect(JSON.parse(stdout).result).toMatchObject({
    ips: [{ address: "10.88.0.3/16" }],
  })
  await podman.start("other", nameServer)
  expect(await podman.address("other")).toBe("10.88.0.3")

  const refused = await podman.try("run", "--rm", "--publish", "8080:80", "--rootfs", "/run/busybox", ...nameServer)
  const explained = await cni(host, builtPlugins, "explain", refused.stderr)
  expect([explained.exitCode, explained.stdout]).toEqual([0, expect.stringContaining("LOOK ")])

  await host.exec("nft", ["delete", "table", "ip", "cni_hostports"])
  expect(await differences(host, builtPlugins, "podman", netns, id)).toEqual([expect.stringMatching(/^portmap: /)])
})

test("containerd: lint says which of two files pods get; a pod is as made, and what others change is told", async () => {
  await using containerd = await Containerd.create()
  const { host } = containerd
  const id = await containerd.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
  const rows = JSON.parse((await cni(host, binDir, "ps", "--json")).stdout) as { containerId: string; netns: string }[]
  const netns = rows.find(({ containerId }) => containerId === id)?.netns ?? ""
  expect((await rulesOf(host, binDir)).filter(([, severity]) => severity === "error")).toEqual([])
  await host.write(`${confDir}/99-other.conflist`, { cniVersion: "1.1.0", name: "other", plugins: [{ type: "ptp" }] })
  expect(await rulesOf(host, binDir)).toContainEqual(["file-order", "info"])
  expect(await differences(host, binDir, "pods", netns, id)).toEqual([])
  await host.exec("ip", ["address", "flush", "dev", "cni0"])
  expect(await differences(host, binDir, "pods", netns, id)).toContain("gateway on the host")
})
