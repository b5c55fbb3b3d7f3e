import { describe, expect, test } from "bun:test"
import { join } from "node:path"
import {
  builtPlugins,
  type ContainerNamespace,
  expectUnchanged,
  HostNamespace,
  programEnv,
  TemporaryDirectory,
  takeSnapshot,
} from "../lab/mod.ts"
import { NodeLab } from "./node-lab.ts"

const tool = join(builtPlugins, "../cni")
const env = {
  ...programEnv,
  CAP_ARGS: JSON.stringify({ portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] }),
}

const network = {
  cniVersion: "1.1.0",
  name: "lab",
  plugins: [
    {
      type: "bridge",
      bridge: "br-diff",
      isDefaultGateway: true,
      ipMasq: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/24" }]], routes: [{ dst: "192.0.2.0/24" }] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

/** Returns how often the address is reported as missing. */
const timesTold = (differences: readonly Difference[], address: string) =>
  differences.filter(({ expected }) => expected.split("/")[0] === address).length

test("an address that is gone is told once, in the container and on the bridge", async () => {
  await using attached = await Attached.create()
  await attached.pod.exec("ip", ["address", "flush", "dev", "eth0"])
  expect(timesTold((await attached.diff()).differences, "10.22.0.2")).toBe(1)
  await using another = await Attached.create()
  await another.host.exec("ip", ["address", "flush", "dev", "br-diff"])
  expect(timesTold((await another.diff()).differences, "10.22.0.1")).toBe(1)
})

interface Difference {
  what: string
  expected: string
  found: string
}

/** A host with one attachment. */
class Attached implements AsyncDisposable {
  readonly host: HostNamespace
  readonly pod: ContainerNamespace
  readonly #directory: TemporaryDirectory

  private constructor(host: HostNamespace, pod: ContainerNamespace, directory: TemporaryDirectory) {
    this.host = host
    this.pod = pod
    this.#directory = directory
  }

  static async create(): Promise<Attached> {
    const host = await HostNamespace.create()
    const attached = new Attached(host, await host.addContainer(), await TemporaryDirectory.create())
    await Bun.write(attached.#directory.join("lab.conflist"), JSON.stringify(network))
    await host.exec(tool, attached.command("add"), { env })
    return attached
  }

  command(...words: string[]): string[] {
    return [...words, "lab", this.pod.path, "--conf-dir", this.#directory.path, "--bin-dir", builtPlugins]
  }

  async diff(): Promise<{ exitCode: number; differences: Difference[] }> {
    const { exitCode, stdout, stderr } = await this.host.tryExec(tool, [...this.command("diff"), "--json"], {
      env: programEnv,
    })
    expect(stderr).toBe("")
    return { exitCode, differences: JSON.parse(stdout).differences }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]()
    await this.host[Symbol.asyncDispose]()
  }
}

test("nothing differs after an ADD, and looking changes nothing", async () => {
  await using attached = await Attached.create()
  const before = await takeSnapshot(attached.host)
  expect(await attached.diff()).toEqual({ exitCode: 0, differences: [] })
  expectUnchanged(before, await takeSnapshot(attached.host), ({ line }) => line.includes("/locks"))
  const text = await attached.host.exec(tool, attached.command("diff"), { env: programEnv })
  expect(text.stdout).toEndWith(" is unchanged since ADD\n")
})

describe("says what others have changed", () => {
  test("rules and leases, by the plugins' own words, also after a plugin that says no", async () => {
    await using attached = await Attached.create()
    await attached.pod.exec("ip", ["link", "set", "eth0", "mtu", "1400"])
    await attached.host.exec("nft", ["delete", "table", "ip", "cni_hostports"])
    const { differences } = await attached.diff()
    expect(differences.map(({ what }) => what)).toEqual([
      "MTU of eth0",
      expect.stringMatching(/^portmap: Cannot find a port mapping/),
    ])
  })

  test("masquerade that is gone, although the bridge's CHECK ends at the MTU", async () => {
    await using attached = await Attached.create()
    await attached.pod.exec("ip", ["link", "set", "eth0", "mtu", "1400"])
    await attached.host.exec("nft", ["delete", "table", "ip", "cni_masquerade"])
    const { differences } = await attached.diff()
    const what = expect.stringMatching(/^masquerade of lab\/.*\/eth0$/)
    expect(differences).toContainEqual({ what, expected: "rules", found: "nothing" })
  })
})

test("what is not attached cannot be compared: exit code 1, which is not that of a difference", async () => {
  await using attached = await Attached.create()
  const other = await attached.host.tryExec(tool, [...attached.command("diff"), "--ifname", "net9"], {
    env: programEnv,
  })
  expect([other.exitCode, other.stderr]).toEqual([1, expect.stringContaining('Cannot find interface "net9"')])
})

test("a container of a runtime is found by its namespace, its ID and its pod's name, without its ID beside it", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod("web")
  await pod.exec("ip", ["route", "delete", "default"])
  for (const name of [pod.path, pod.name, "shop/web"]) {
    const { exitCode, stdout } = await lab.cni(["diff", "pods", name, "--json"])
    expect({ name, exitCode, ...JSON.parse(stdout) }).toMatchObject({
      name,
      exitCode: 3,
      containerId: pod.name,
      differences: [{ what: "route default" }],
    })
  }
  expect(await lab.cni(["diff", "pods", "shop/other"])).toMatchObject({ exitCode: 1 })
})
