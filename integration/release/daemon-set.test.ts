import { expect, test } from "bun:test"
import { readFile } from "node:fs/promises"
import { basename, join } from "node:path"
import { targets } from "../../scripts/engine.ts"
import { makeImage } from "../../scripts/release/image.ts"
import type { StagedFile } from "../../scripts/release/stage.ts"
import { pluginNames } from "../../suite/plugins.ts"
import { readDaemonSet } from "../deploy/manifests.ts"
import { askFromHost } from "../interop/busybox.ts"
import { binDir, Containerd } from "../interop/containerd.ts"
import { builtPlugins, mustRun, TemporaryDirectory, waitFor } from "../lab/mod.ts"
import { execInDaemon, runDaemon } from "./daemon-set.ts"
import { age } from "./sample.ts"

/**
 * The directory of Debian's Go plugins. They stand for the Go plugins that kubeadm installs in the runtime's directory.
 */
const referencePlugins = "/usr/lib/cni"

const isOfConfiguration = (word: string) => /^--(config|conf-dir|skip-status)\b/.test(word)

/** Returns the files of the image, built for this machine. */
async function builtFiles(): Promise<StagedFile[]> {
  const read = (kind: "plugin" | "tool", path: string) =>
    readFile(path).then((bytes): StagedFile => ({ kind, name: basename(path), mode: 0o755, bytes }))
  return await Promise.all([
    ...pluginNames.map((name) => read("plugin", join(builtPlugins, name))),
    read("tool", join(builtPlugins, "../cni")),
  ])
}

async function importImage(node: Containerd, version: string, files: readonly StagedFile[]): Promise<string> {
  await using directory = await TemporaryDirectory.create("cni-image")
  await makeImage(new Map([[targets.amd64, files]]), { directory: directory.path, age, version })
  const archive = directory.join(`cni-plugins-image-${version}.tar`)
  await node.ctr("-n", "k8s.io", "images", "import", "--snapshotter", "native", archive)
  return `localhost/cni-plugins:${version}`
}

/** A loop that creates and deletes pods with a published port until it is stopped. */
class Churn {
  readonly errors: string[] = []
  pods = 0
  #isStopped = false
  readonly #ended: Promise<void>

  constructor(node: Containerd) {
    this.#ended = this.#run(node)
  }

  async #run(node: Containerd): Promise<void> {
    for (; !this.#isStopped; this.pods++) {
      const portMappings = [{ containerPort: 80, hostPort: 9000 + (this.pods % 100) }]
      try {
        const id = await node.runPod(`churn-${this.pods}`, { portMappings })
        await node.stopPod(id)
        await node.removePod(id)
      } catch (error) {
        this.errors.push(String(error))
      }
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#ended
  }
}

test("the DaemonSet takes the place of the reference plugins, is upgraded and rolled back while pods come and go, and goes", async () => {
  const files = await builtFiles()
  // Appended bytes tell the suites apart and are not loaded.
  const suite = (name: string) =>
    files.map((file) =>
      file.kind === "plugin" ? { ...file, bytes: Buffer.concat([file.bytes, Buffer.from(name)]) } : file,
    )
  await using node = await Containerd.create()
  const { host } = node
  await host.exec("sh", ["-ec", `rm -rf ${binDir} && cp -a ${referencePlugins} ${binDir}`])
  const images = { a: await importImage(node, "a", suite("a")), b: await importImage(node, "b", suite("b")) }
  const { spec: whole } = (await readDaemonSet()).spec.template
  // Without an API server the agent cannot run, so the node keeps its configuration.
  const spec = {
    ...whole,
    initContainers: whole.initContainers.map((one) => ({
      ...one,
      args: one.args.filter((word) => !isOfConfiguration(word)),
    })),
    containers: whole.containers.filter(({ name }) => name === "reconcile"),
  }
  const isOf = async (name: string) =>
    (await readFile(host.file(join(binDir, "bridge")))).toString("latin1").endsWith(name)

  // systemd shares the mounts of a node, so a container sees later mounts too.
  await host.exec("sh", ["-ec", "mount --rbind /run/netns /run/netns && mount --make-rshared /run/netns"])
  const old = await node.runPod("old", { portMappings: [{ containerPort: 80, hostPort: 8080 }] })

  // Without --adopt the installer exits with an error and changes nothing.
  const [install] = spec.initContainers
  if (install === undefined) throw new Error("there is no init container")
  const careful = { ...spec, initContainers: [{ ...install, args: install.args.filter((word) => word !== "--adopt") }] }
  await expect(runDaemon(node, careful, images.a)).rejects.toThrow(/--adopt/)
  await mustRun(["diff", "--recursive", referencePlugins, host.file(binDir)])

  const churn = new Churn(node)
  await waitFor(() => churn.pods > 1, "pods of the reference plugins")
  const first = await runDaemon(node, spec, images.a)
  expect(await isOf("a")).toBe(true)
  await waitFor(() => churn.pods > 3, "pods of the first suite")
  await node.removePod(first.podSandboxId)
  const second = await runDaemon(node, spec, images.b)
  expect(await isOf("b")).toBe(true)
  await waitFor(() => churn.pods > 5, "pods of the second suite")
  await node.removePod(second.podSandboxId)
  const third = await runDaemon(node, spec, images.a)
  expect(await isOf("a")).toBe(true)
  await waitFor(() => churn.pods > 7, "pods after the way back")
  await churn.stop()
  expect(churn.errors).toEqual([])

  expect(await askFromHost(host, "127.0.0.1", 8080)).toBe("old")
  // The running container restores the published port.
  const late = await node.runPod("late", { portMappings: [{ containerPort: 80, hostPort: 8081 }] })
  await host.exec("nft", ["flush", "ruleset"])
  expect(await askFromHost(host, "127.0.0.1", 8081)).toBe("late")
  // It also restores a deleted bridge with settings in /proc/sys. At that path only a privileged container could write
  // them.
  await host.exec("ip", ["link", "delete", "cni0"])
  await host.exec("sysctl", ["-w", "net.ipv4.ip_forward=0"])
  expect(await askFromHost(host, "127.0.0.1", 8081)).toBe("late")
  const settings = ["net.ipv4.conf.cni0.route_localnet", "net.ipv4.ip_forward"]
  expect((await host.exec("sysctl", ["-n", ...settings])).stdout).toBe("1\n1\n")
  await node.removePod(late)

  expect(await execInDaemon(node, third, "install", "--bin-dir", "/host/bin", "--verify")).toMatchObject({
    exitCode: 0,
  })
  const uninstall = () => execInDaemon(node, third, "install", "--bin-dir", "/host/bin", "--uninstall")
  expect((await uninstall()).exitCode).toBe(3) // refused while a pod is attached
  expect(await isOf("a")).toBe(true)
  await node.removePod(old)
  expect(await uninstall()).toMatchObject({ exitCode: 0 })
  await mustRun(["diff", "--recursive", referencePlugins, host.file(binDir)])
})
