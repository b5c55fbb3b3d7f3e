import { chmod, copyFile, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { mustRun, waitFor } from "../lab/mod.ts"
import type { RuntimeHost } from "./runtime-host.ts"

/** The name of the image that `writeImage` creates. No registry has an image of this name. */
export const imageName = "interop.test/busybox:1"

/** A server that answers at port 80 with its container's name. It writes no file, because a pod's root is read-only. */
export const nameServer = ["/bin/busybox", "nc", "-ll", "-p", "80", "-e", "/bin/busybox", "hostname"]

/** Returns the command that connects to the server, from a container or from the host. */
export function askName(address: string, port: number): string[] {
  return ["/bin/busybox", "timeout", "2", "/bin/busybox", "nc", address, String(port)]
}

/** Connects to the server from the host, and returns its answer. Waits until the server listens. */
export function askFromHost(host: RuntimeHost, address: string, port: number): Promise<string> {
  const [file = "", ...args] = askName(address, port)
  const ask = async () => (await host.exec(file, args)).stdout.trim() || undefined
  return waitFor(ask, `an answer on ${address}, port ${port}`)
}

/** Creates a root directory with Debian's busybox-static on the host, and returns its path there. */
export async function writeRoot(host: RuntimeHost): Promise<string> {
  const root = "/run/busybox"
  for (const directory of ["bin", "dev", "etc", "proc", "sys", "tmp"]) {
    await mkdir(host.file(join(root, directory)), { recursive: true })
  }
  await chmod(host.file(`${root}/tmp`), 0o1777)
  await copyFile("/bin/busybox", host.file(`${root}/bin/busybox`))
  return root
}

/** Creates the server's image as `docker save` does, and returns its path. The image is also the pods' pause image. */
export async function writeImage(host: RuntimeHost): Promise<string> {
  const root = await writeRoot(host)
  const directory = "/run/image"
  const file = (name: string) => host.file(join(directory, name))
  await mkdir(file("."))
  await mustRun(["tar", "-C", host.file(root), "-cf", file("layer.tar"), "."])
  const digest = new Bun.CryptoHasher("sha256").update(await Bun.file(file("layer.tar")).bytes()).digest("hex")
  const config = {
    architecture: process.arch === "x64" ? "amd64" : process.arch,
    os: "linux",
    config: { Cmd: nameServer, StopSignal: "SIGKILL" }, // as process 1 without a handler it ignores SIGTERM
    rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] },
  }
  await writeFile(file("config.json"), JSON.stringify(config))
  const manifest = [{ Config: "config.json", RepoTags: [imageName], Layers: ["layer.tar"] }]
  await writeFile(file("manifest.json"), JSON.stringify(manifest))
  await mustRun(["tar", "-C", file("."), "-cf", file("image.tar"), "manifest.json", "config.json", "layer.tar"])
  return join(directory, "image.tar")
}
