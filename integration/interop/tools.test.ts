/** Tests the `cni` commands for operators on nodes that podman and containerd have set up. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { builtPlugins, isOfMachine, type Output, programEnv } from "../lab/mod.ts"
import { nameServer } from "./busybox.ts"
import { binDir, Containerd } from "./containerd.ts"
import { Podman } from "./podman.ts"
import { confDir, type RuntimeHost } from "./runtime-host.ts"

interface Row {
  network: string
  containerId: string
  ifName: string
  pod?: { namespace: string; name: string }
  netns: string
  alive: boolean
  addresses: string[]
  ports: object[]
  sources: string[]
  orphan: string[]
}

const cni = (host: RuntimeHost, pluginDir: string, ...args: string[]): Promise<Output> =>
  host.tryExec(join(builtPlugins, "../cni"), args, {
    env: { ...programEnv, NETCONFPATH: confDir, CNI_PATH: pluginDir },
  })

async function ps(host: RuntimeHost): Promise<Row[]> {
  const { stdout, stderr, exitCode } = await cni(host, binDir, "ps", "--json")
  expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 })
  return JSON.parse(stdout) as Row[]
}

async function rulesOf(host: RuntimeHost, pluginDir: string): Promise<[string, string][]> {
  const { stdout } = await cni(host, pluginDir, "doctor", "--json")
  const { findings } = JSON.parse(stdout) as { findings: { rule: string; what: string }[] }
  return findings.filter(({ rule }) => !isOfMachine(rule)).map(({ rule, what }) => [rule, what])
}

test("ps shows podman's containers, and doctor finds nothing wrong with them", async () => {
  await using podman = await Podman.create()
  await podman.start("web", nameServer, "--publish", "8080:80")
  const id = await podman.run("inspect", "--format", "{{.Id}}", "web")
  const rows = await ps(podman.host)
  expect(rows).toMatchObject([
    {
      network: "podman",
      containerId: id,
      ifName: "eth0",
      alive: true,
      addresses: ["10.88.0.2/16"],
      ports: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
      orphan: [],
    },
  ])
  expect(rows[0]?.sources).toEqual(["cache", "lease", "link", "rule"])
  expect(await rulesOf(podman.host, builtPlugins)).toEqual([])
  const graph = JSON.parse((await cni(podman.host, builtPlugins, "graph", "-o", "json")).stdout)
  expect(graph.segments).toMatchObject([{ title: "cni-podman0", members: [{ containerId: id }] }])
  await podman.remove("web")
  expect(await ps(podman.host)).toEqual([])
})

test("ps shows containerd's pods by their names, and doctor finds one whose sandbox was lost", async () => {
  await using containerd = await Containerd.create()
  const { host } = containerd
  const id = await containerd.runPod("web", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })
  expect(await ps(host)).toMatchObject([
    {
      network: "pods",
      containerId: id,
      pod: { namespace: "interop", name: "web" },
      alive: true,
      addresses: ["10.85.0.2/16"],
      ports: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
      orphan: [],
    },
  ])
  expect(await rulesOf(host, binDir)).toEqual([])
  await containerd.kill()
  const [row] = await ps(host)
  await host.exec("ip", ["link", "delete", (await hostEnd(host)) ?? ""])
  expect((await rulesOf(host, binDir)).map(([rule]) => rule)).toEqual(["missing-host-end"])
  expect(row?.orphan).toEqual([])
})

async function hostEnd(host: RuntimeHost): Promise<string | undefined> {
  const links = await host.json<{ ifname: string }[]>("ip", ["-j", "link", "show", "type", "veth"])
  return links[0]?.ifname
}
