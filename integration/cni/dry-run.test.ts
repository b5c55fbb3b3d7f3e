import { describe, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import {
  builtPlugins,
  expectUnchanged,
  HostNamespace,
  programEnv,
  TemporaryDirectory,
  takeSnapshot,
} from "../lab/mod.ts"

const tool = join(builtPlugins, "../cni")
const ipam = { type: "host-local", ranges: [[{ subnet: "10.22.0.0/24" }]] }
const portmap = { type: "portmap", capabilities: { portMappings: true } }
const bridge = { type: "bridge", bridge: "br-dry", isDefaultGateway: true, ipMasq: true, ipam }

interface Made {
  result: { ips?: { address: string }[]; interfaces?: { name: string }[] }
  host: { links: string[]; addresses: string[]; routes: string[] }
  container: { links: string[]; addresses: string[]; routes: string[] }
  sysctls: Record<string, { was: string; is: string }>
  files: string[]
  rules: string
}

function withPort(hostPort: number) {
  return {
    ...programEnv,
    CAP_ARGS: JSON.stringify({ portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }] }),
  }
}

async function write(directory: TemporaryDirectory, ...plugins: object[]): Promise<string[]> {
  await Bun.write(directory.join("lab.conflist"), JSON.stringify({ cniVersion: "1.1.0", name: "lab", plugins }))
  return ["--conf-dir", directory.path, "--bin-dir", builtPlugins]
}

/**
 * Runs `cni dry-run ADD`. Throws if the command changes the host or leaves a file in the directory for temporary files.
 */
async function dryRun(host: HostNamespace, places: string[], port = 8080) {
  await using temporary = await TemporaryDirectory.create()
  const before = await takeSnapshot(host)
  const output = await host.tryExec(tool, ["dry-run", "ADD", "lab", ...places, "--json"], {
    env: { ...withPort(port), TMPDIR: temporary.path },
  })
  expectUnchanged(before, await takeSnapshot(host))
  expect(readdirSync(temporary.path)).toEqual([])
  const answer: Made = JSON.parse(output.stdout)
  return { ...output, made: answer }
}

test("what it shows is what the ADD then makes, on a host that is used already", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const places = await write(directory, bridge, portmap)
  const [first, second] = [await host.addContainer(), await host.addContainer()]
  await host.exec(tool, ["add", "lab", first.path, ...places, "--container-id", first.name], { env: withPort(8080) })
  const { exitCode, made } = await dryRun(host, places, 8081)
  expect(exitCode).toBe(0)

  const rules = async () => (await host.exec("nft", ["list", "ruleset"])).stdout.replace(/\s+/g, " ")
  const before = await rules()
  const added = await host.exec(tool, ["add", "lab", second.path, ...places, "--container-id", "dry-run", "--json"], {
    env: withPort(8081),
  })
  const { ips, interfaces } = JSON.parse(added.stdout)
  expect(made.result.ips).toEqual(ips)
  expect(made.result.ips?.map(({ address }) => address)).toEqual(["10.22.0.3/24"])
  expect(made.result.interfaces?.map(({ name }) => name.replace(/^veth.*/, "veth"))).toEqual(
    interfaces.map(({ name }: { name: string }) => name.replace(/^veth.*/, "veth")),
  )
  // The bridge, its address and its route existed before, so they are not reported as new.
  expect(made.host.links).toEqual([
    expect.stringMatching(/^veth\w+: veth, mtu 1500, up, port of br-dry, alias lab\/dry-run\/eth0$/),
  ])
  expect([made.host.addresses, made.host.routes, made.sysctls]).toEqual([[], [], {}])
  expect(made.container.addresses).toEqual(["10.22.0.3/24 dev eth0"])
  expect(made.container.routes.sort()).toEqual(["10.22.0.0/24 dev eth0", "default via 10.22.0.1 dev eth0"])
  expect(made.files).toContain("/var/lib/cni/networks/lab/10.22.0.3")
  // nft prints these lines of rules after the ADD, and did not print them before.
  const after = await rules()
  const elements = made.rules
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line.includes("lab/dry-run/eth0"))
  expect(elements).toContain('tcp . 8081 comment "lab/dry-run/eth0" : 10.22.0.3 . 80')
  expect(elements).toContain('10.22.0.3 . 10.22.0.0 comment "lab/dry-run/eth0"')
  expect(elements.filter((line) => !after.includes(line) || before.includes(line))).toEqual([])
  expect(before).toContain(first.name)
  expect(made.rules).not.toContain(first.name)
  expect(made.rules).not.toContain("from containers to everywhere else") // a rule that all containers share
})

test("on a host that has nothing yet: the bridge, its address, forwarding and all rules", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const { made } = await dryRun(host, await write(directory, bridge, portmap))
  expect(made.host.links[0]).toStartWith("br-dry: bridge, mtu 1500")
  expect([made.host.addresses, made.host.routes]).toEqual([["10.22.0.1/24 dev br-dry"], ["10.22.0.0/24 dev br-dry"]])
  expect(made.sysctls["net.ipv4.ip_forward"]).toEqual({ was: "0", is: "1" })
  expect(made.rules).toContain("ip saddr @containers ip daddr != 224.0.0.0/4 masquerade")
})

describe("other plugins and places", () => {
  test("macvlan on a stand-in for the device of this host, with its MTU", async () => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    await host.exec("ip", ["link", "add", "uplink", "mtu", "1450", "type", "veth", "peer", "name", "far"])
    for (const name of ["uplink", "far"]) await host.exec("ip", ["link", "set", name, "up"])
    const { made } = await dryRun(host, await write(directory, { type: "macvlan", master: "uplink", ipam }))
    expect(made.container.links).toEqual([expect.stringContaining("eth0: macvlan, mtu 1450, up")])
    expect(made.host).toEqual({ links: [], addresses: [], routes: [] })
  })

  test("ptp, and a store in a directory of its own", async () => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    await Bun.write(directory.join("store/lab/10.22.0.2"), "another\neth0")
    const places = await write(directory, { type: "ptp", ipam: { ...ipam, dataDir: directory.join("store") } })
    const { made } = await dryRun(host, places)
    expect(made.result.ips?.[0]?.address).toBe("10.22.0.3/24")
    expect(made.files).toContain(directory.join("store/lab/10.22.0.3"))
    expect(readdirSync(directory.join("store/lab"))).toEqual(["10.22.0.2"])
  })
})

describe("an ADD that would fail fails here, with the same words", () => {
  test("a host port that another container has", async () => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    const places = await write(directory, bridge, portmap)
    const [first, second] = [await host.addContainer(), await host.addContainer()]
    await host.exec(tool, ["add", "lab", first.path, ...places], { env: withPort(8080) })
    const dry = await dryRun(host, places, 8080)
    const real = await host.tryExec(
      tool,
      ["add", "lab", second.path, ...places, "--container-id", "dry-run", "--json"],
      { env: withPort(8080) },
    )
    expect([dry.exitCode, JSON.parse(dry.stdout).msg]).toEqual([
      1,
      JSON.parse(real.stdout).msg.replace("10.22.0.4", "10.22.0.3"),
    ])
    expect(JSON.parse(dry.stdout).msg).toContain("Cannot map host port")
  })

  test.each([
    [
      "a device that does not exist",
      { type: "macvlan", master: "eth7", ipam },
      /Cannot find the master interface "eth7"/,
    ],
    ["a bridge with another address", { ...bridge, bridge: "br-old" }, /already has an IP address different from/],
    [
      "a range that is full",
      {
        ...bridge,
        ipam: { type: "host-local", subnet: "10.22.9.0/30", rangeStart: "10.22.9.1", rangeEnd: "10.22.9.1" },
      },
      /no IP addresses available/,
    ],
  ])("%s", async (_, plugin, words) => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    await host.exec("ip", ["link", "add", "br-old", "type", "bridge"])
    await host.exec("ip", ["address", "add", "10.22.0.9/16", "dev", "br-old"])
    const { exitCode, stdout } = await dryRun(host, await write(directory, plugin))
    expect([exitCode, JSON.parse(stdout).msg]).toEqual([1, expect.stringMatching(words)])
  })

  test("a foreign plugin cannot write", async () => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    const mark = directory.join("written")
    const script = `#!/bin/sh\necho x > ${mark} 2>/dev/null && wrote=yes\nprintf '{"cniVersion":"1.1.0","code":100,"msg":"wrote: %s, run: %s"}' "\${wrote:-no}" "$(ls /run | tr '\\n' ' ')"\nexit 1\n`
    await Bun.write(directory.join("bin/eager"), script)
    await host.exec("chmod", ["755", directory.join("bin/eager")])
    const [conf = "", confDir = ""] = await write(directory, { type: "eager" })
    const { stdout } = await dryRun(host, [conf, confDir, "--bin-dir", directory.join("bin")])
    expect(JSON.parse(stdout).msg).toMatch(/wrote: no, run: (cni |mount |netns )+$/)
    expect(readdirSync(directory.path)).not.toContain("written")
  })
})

test("the text has everything, and says that nothing was changed; other verbs are a usage error", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const places = await write(directory, bridge, portmap)
  const { stdout } = await host.exec(tool, ["dry-run", "ADD", "lab", ...places], { env: withPort(8080) })
  for (const part of [
    "eth0",
    "On the host\n  + link br-dry",
    "In the container\n",
    "Files\n",
    "table ip cni_hostports {",
  ])
    expect(stdout).toContain(part)
  expect(stdout).toEndWith("\nNothing was changed\n")
  expect((await host.tryExec(tool, ["dry-run", "DEL", "lab", ...places], { env: programEnv })).exitCode).toBe(2)
})
