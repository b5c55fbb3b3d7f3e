/**
 * Creates the system extension for a machine by Debian's mksquashfs: `cni-plugins-X.Y.Z-x86-64.raw`. It is for hosts
 * whose /usr is read-only: installed as /var/lib/extensions/cni-plugins.raw, it adds the plugins to /usr/lib/cni.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { run, type Target } from "../engine.ts"
import { about, place, textFile } from "./place.ts"
import { layTree, type Making, type StagedFile } from "./stage.ts"

const layout = {
  plugin: "usr/lib/cni",
  unit: "usr/lib/systemd/system",
  document: `usr/share/doc/${about.name}`,
  zsh: "usr/share/zsh/site-functions",
} as const

export const systemdMachines: Readonly<Record<Target["name"], string>> = { amd64: "x86-64", arm64: "arm64" }

export async function makeSysext(target: Target, files: readonly StagedFile[], making: Making): Promise<void> {
  const { directory, age, version = about.version } = making
  const scratch = mkdtempSync(join(tmpdir(), "cni-sysext-"))
  const machine = systemdMachines[target.name]
  const made = join(directory, `${about.name}-${version}-${machine}.raw`)
  try {
    // Static executables run on every distribution of the same machine. systemd requires a file with the extension's
    // name.
    const release = `ID=_any\nARCHITECTURE=${machine}\n`
    const named = textFile(`usr/lib/extension-release.d/extension-release.${about.name}`, release)
    layTree(scratch, [...place(files, layout), named], age)
    const plain = ["-noappend", "-all-root", "-no-xattrs", "-quiet", "-no-progress"]
    const packed = ["-comp", "zstd", "-b", "1M"]
    await run(["mksquashfs", scratch, made, ...plain, ...packed], { env: { SOURCE_DATE_EPOCH: String(age) } })
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}
