import { mkdir } from "node:fs/promises"
import { imageName, writeImage } from "../interop/busybox.ts"
import { binDir, installOurs } from "../interop/containerd.ts"
import { PodRuntime } from "../interop/cri.ts"
import { containerdNetwork } from "../interop/networks.ts"
import { confDir, RuntimeHost, runtimeEnv } from "../interop/runtime-host.ts"

const storage = { root: "/run/storage", runroot: "/run/storage-run" }

/** The settings other than the defaults: state in memory, no seccomp, no AppArmor, no cgroups for each pod. */
const crioConf = `
[crio]
root = "${storage.root}"
runroot = "${storage.runroot}"
storage_driver = "vfs"
log_dir = "/run/crio/logs"
version_file = "/run/crio/version"
version_file_persist = "/run/crio/version-persist"
clean_shutdown_file = "/run/crio/clean"
[crio.api]
listen = "/run/crio/crio.sock"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
drop_infra_ctr = false # it answers on port 80
namespaces_dir = "/run"
seccomp_profile = "unconfined"
apparmor_profile = "unconfined"
[crio.runtime.runtimes.runc]
runtime_path = "/run/bin/runc"
runtime_root = "/run/runc"
monitor_path = "/usr/bin/conmon"
[crio.image]
pause_image = "${imageName}"
pause_command = "" # that of the image
signature_policy = "/run/crio.policy.json"
[crio.network]
network_dir = "${confDir}"
plugin_dirs = ["${binDir}"]
[crio.nri]
enable_nri = false
`

/** CRI-O on its own host, with one network that uses the plugins under test. */
export class CriO extends PodRuntime {
  /** The bridge's address. CRI-O maps ports itself, but not those of 127.0.0.1. */
  override readonly publishedAt = "10.85.0.1"

  static async create(network: object | undefined = containerdNetwork): Promise<CriO> {
    const host = await RuntimeHost.create()
    try {
      await installOurs(host)
      await mkdir("/var/lib/containers", { recursive: true }) // creates only an empty directory on the machine, as mount point
      for (const directory of ["/etc/crio", "/var/lib/containers"]) {
        await mkdir(directory, { recursive: true })
        await host.exec("mount", ["-t", "tmpfs", "-o", "mode=755", "cni-test", directory])
      }
      await host.write("/etc/crio/crio.conf", crioConf)
      await host.write("/run/crio.policy.json", { default: [{ type: "insecureAcceptAnything" }] })
      if (network) await host.write(`${confDir}/10-pods.conflist`, network)
      const places = ["--root", storage.root, "--runroot", storage.runroot, "--storage-driver", "vfs"]
      await host.exec("podman", [...places, "load", "--quiet", "--input", await writeImage(host)], {
        env: { ...runtimeEnv, HOME: "/run" },
      })
      const crio = new CriO(host, "/run/crio/crio.sock")
      await crio.start()
      return crio
    } catch (error) {
      await host[Symbol.asyncDispose]()
      throw error
    }
  }

  start(): Promise<void> {
    return this.startProgram("crio")
  }
}
