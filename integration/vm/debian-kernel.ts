import { existsSync } from "node:fs"
import { mkdir, readdir, rename, rm } from "node:fs/promises"
import { join } from "node:path"
import { execa } from "execa"
import { mustRun, TemporaryDirectory } from "../lab/mod.ts"
import type { KernelFiles } from "./kernel.ts"

/** The cache of kernels between runs. It is outside the checkout, because that contains only project files. */
const cache = "/var/cache/cni-plugins-vm"

/**
 * Returns Debian's stock kernel, which is downloaded (70 MB) and unpacked (400 MB), but not installed. The cache
 * directory is named after the package and its version, and stays until a newer version exists.
 */
export async function debianKernel(): Promise<KernelFiles> {
  const name = await packageName()
  const uri = (await mustRun(["apt-get", "download", "--print-uris", name])).stdout
  const file = /^'[^']*' (\S+)\.deb /m.exec(uri)?.[1]
  if (file === undefined) throw new Error(`Cannot find the file name of ${name} in what apt-get says: ${uri}`)
  const directory = join(cache, file)
  if (!existsSync(directory)) await download(name, directory)
  const [release = ""] = await readdir(join(directory, "lib/modules"))
  return { image: join(directory, `boot/vmlinuz-${release}`), modules: join(directory, "lib/modules", release) }
}

/** Returns the name of the newest kernel's package, like `linux-image-6.1.0-56-amd64`. */
async function packageName(): Promise<string> {
  const { stdout } = await mustRun(["apt-cache", "depends", "linux-image-amd64"])
  const name = /Depends: (linux-image-\S+)/.exec(stdout)?.[1]
  if (name === undefined) throw new Error('Cannot find Debian\'s kernel: apt knows none; run "apt-get update"')
  return name
}

/**
 * Downloads and unpacks a package. `directory` exists only when it is complete. Deletes the directories of older
 * kernels.
 */
async function download(name: string, directory: string): Promise<void> {
  console.log(`Downloading ${name} to ${directory}`)
  await mkdir(cache, { recursive: true })
  const older = await readdir(cache)
  await using scratch = await TemporaryDirectory.create(".download", cache)
  const root = scratch.join("root")
  await execa("apt-get", ["download", name], { cwd: scratch.path })
  const [file = ""] = (await readdir(scratch.path)).filter((entry) => entry.endsWith(".deb"))
  await mustRun(["dpkg", "-x", scratch.join(file), root])
  const [release = ""] = await readdir(join(root, "lib/modules"))
  await mustRun(["depmod", "-b", root, release])
  await rename(root, directory)
  for (const entry of older) await rm(join(cache, entry), { recursive: true, force: true })
}
