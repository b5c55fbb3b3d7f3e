import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { cp, mkdir, readdir } from "node:fs/promises"
import { dirname } from "node:path"
import { makeArchive } from "../../scripts/dist.ts"
import { targets } from "../../scripts/engine.ts"
import { stageFiles } from "../../scripts/release/stage.ts"
import { pluginNames } from "../../suite/plugins.ts"
import { builtPlugins, HostNamespace, isOfMachine, mustRun, type Output, ping, TemporaryDirectory } from "../lab/mod.ts"

let directory: TemporaryDirectory
let archive: string

beforeAll(async () => {
  directory = await TemporaryDirectory.create("cni-scratch", dirname(builtPlugins))
  archive = await makeArchive(targets.amd64, await stageFiles(targets.amd64), directory.path, 1_700_000_000)
})
afterAll(() => directory[Symbol.asyncDispose]())

const network = {
  cniVersion: "1.1.0",
  name: "pods",
  plugins: [
    {
      type: "bridge",
      bridge: "cni0",
      isDefaultGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.85.0.0/24" }]] },
    },
    { type: "portmap", capabilities: { portMappings: true } },
  ],
}

/** Commands that copy the archive's files from /srv to the root directory, whose path is the first argument. */
type Unpack = (root: string) => Promise<unknown>

const roots: readonly (readonly [string, Unpack])[] = [
  ["nothing but the archive's files", (root) => mustRun(["tar", "-C", `${root}/srv`, "-xzf", archive])],
  [
    "what Alpine's has: busybox and musl's loader, no glibc",
    async (root) => {
      await mkdir(`${root}/bin`)
      await mkdir(`${root}/lib`)
      await cp("/bin/busybox", `${root}/bin/busybox`)
      await cp("/lib/x86_64-linux-musl/libc.so", `${root}/lib/ld-musl-x86_64.so.1`)
      await cp(archive, `${root}/tmp/archive.tgz`)
      await mustRun(["chroot", root, "/bin/busybox", "tar", "-C", "/srv", "-xzf", "/tmp/archive.tgz"])
    },
  ],
]

/**
 * A root directory with the archive's files and the directories of a node, and a host whose processes see only this
 * root.
 */
class Root implements AsyncDisposable {
  readonly host: HostNamespace
  readonly #directory: TemporaryDirectory

  private constructor(host: HostNamespace, directory: TemporaryDirectory) {
    this.host = host
    this.#directory = directory
  }

  static async create(unpack: Unpack): Promise<Root> {
    const root = new Root(await HostNamespace.create(), await TemporaryDirectory.create("cni-root"))
    const directories = ["srv", "opt/cni/bin", "etc/cni/net.d", "proc", "sys", "run/netns", "var/lib/cni", "tmp"]
    for (const name of directories) await mkdir(root.at(name), { recursive: true })
    await Bun.write(root.at("etc/cni/net.d/10-pods.conflist"), JSON.stringify(network))
    await unpack(root.#directory.path)
    return root
  }

  at(path: string): string {
    return this.#directory.join(path)
  }

  /** Runs a program of the root directory, with its path inside. */
  run(...command: string[]): Promise<Output> {
    const at = this.#directory.path
    const steps = [
      `mount --bind ${at} ${at}`,
      `mount -t proc proc ${at}/proc`,
      `mount -t sysfs sysfs ${at}/sys`,
      `mount --rbind /run/netns ${at}/run/netns`,
      `exec chroot ${at} "$@"`,
    ]
    return this.host.tryExec(
      "unshare",
      ["--mount", "--propagation=private", "sh", "-ec", steps.join("\n"), "sh", ...command],
      { env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } },
    )
  }

  /** Runs the unpacked tool and returns its output. Throws if the tool fails. */
  async cni(...words: string[]): Promise<string> {
    const { stdout, stderr, exitCode } = await this.run("/srv/cni", ...words)
    expect({ words, exitCode, stderr }).toEqual({ words, exitCode: 0, stderr: "" })
    return stdout
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]()
    await this.#directory[Symbol.asyncDispose]()
  }
}

describe.each(roots)("in a root that has %s,", (_, unpack) => {
  test("the tool installs the plugins, attaches containers, looks at them, collects and detaches", async () => {
    await using root = await Root.create(unpack)
    const { host } = root
    await root.cni("install", "--bin-dir", "/opt/cni/bin")
    expect((await readdir(root.at("opt/cni/bin"))).filter((name) => !name.startsWith(".")).sort()).toEqual([
      ...pluginNames,
    ])
    await root.cni("install", "--bin-dir", "/opt/cni/bin", "--verify")

    const [web, lost] = [await host.addContainer(), await host.addContainer()]
    await root.cni("add", "pods", web.path)
    await root.cni("add", "pods", lost.path)
    expect(await web.json("ip", ["-j", "-4", "address", "show", "eth0"])).toMatchObject([
      { addr_info: [{ local: "10.85.0.2", prefixlen: 24 }] },
    ])
    expect(await ping(web, "10.85.0.1")).toBe(true)
    expect(await ping(web, "10.85.0.3")).toBe(true)
    await root.cni("check", "pods", web.path)
    const shown = JSON.parse(await root.cni("ps", "--json")) as { netns: string }[]
    expect(shown.map(({ netns }) => netns).sort()).toEqual([web.path, lost.path].sort())
    const findings = async () => {
      const { stdout } = await root.run("/srv/cni", "doctor", "--json")
      const { findings } = JSON.parse(stdout) as { findings: { rule: string }[] }
      return findings.map(({ rule }) => rule).filter((rule) => !isOfMachine(rule))
    }
    expect(await findings()).toEqual([])

    await host.removeContainer(lost)
    await root.cni("gc", "pods", "--auto")
    const leases = async () =>
      (await readdir(root.at("var/lib/cni/networks/pods"))).filter((name) => /^10\./.test(name))
    expect(await leases()).toEqual(["10.85.0.2"])
    await root.cni("del", "pods", web.path)
    expect(await leases()).toEqual([])
    expect(await web.json("ip", ["-j", "link"])).toMatchObject([{ ifname: "lo" }])
    expect((await host.exec("nft", ["list", "ruleset"])).stdout).not.toContain("10.85.0.")
    expect(await findings()).toEqual([])
  })
})
