import { chmod, copyFile, mkdir, readdir, writeFile } from "node:fs/promises"
import { basename, join } from "node:path"
import { execa } from "execa"
import { moduleFiles } from "./modules.ts"

/** The settings that `init.sh` reads. */
export interface Settings {
  readonly share: string
  readonly reports: string
  readonly modules: string
  readonly checkout: string
}

/**
 * Creates an initial RAM disk in the empty directory `scratch`, and returns its path. It contains busybox, `init.sh`
 * with its settings, and `modules`. It is not compressed, because an emulated machine decompresses slowly.
 */
export async function makeInitramfs(scratch: string, settings: Settings, modules: readonly string[]): Promise<string> {
  const root = join(scratch, "root")
  for (const directory of ["bin", "dev", "proc", "sys", "modules", "host", "ram", "newroot"]) {
    await mkdir(join(root, directory), { recursive: true })
  }
  await copyFile("/bin/busybox", join(root, "bin/busybox"))
  await copyFile(join(import.meta.dir, "init.sh"), join(root, "init"))
  await chmod(join(root, "init"), 0o755)
  const variables = Object.entries(settings).map(([name, value]) => `${name}=${quote(value)}\n`)
  await writeFile(join(root, "settings"), variables.join(""))
  for (const [at, file] of (await moduleFiles(settings.modules, modules)).entries()) {
    await copyFile(file, join(root, "modules", `${String(at).padStart(2, "0")}-${basename(file)}`))
  }
  const archive = join(scratch, "initramfs")
  // Sorted, because the kernel drops a file that precedes its directory.
  const names = (await readdir(root, { recursive: true })).sort().join("\n")
  await execa("cpio", ["-o", "-H", "newc", "--quiet", "-F", archive], { cwd: root, input: names })
  return archive
}

function quote(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`
}
