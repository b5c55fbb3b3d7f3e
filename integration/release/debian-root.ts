import { mkdir } from "node:fs/promises"
import { mustRun, type Output, programEnv, runProgram, TemporaryDirectory } from "../lab/mod.ts"

/**
 * Runs a script in a copy of this machine's Debian, and deletes the copy afterward. The copy has the same packages, but
 * its own processes, network and /run. `shared` is mounted at /mnt.
 */
export async function runInDebian(script: string, shared: string): Promise<Output> {
  await using scratch = await TemporaryDirectory.create("cni-debian")
  const at = scratch.path
  const steps = `
mount -t tmpfs tmpfs ${at} && mkdir ${at}/upper ${at}/work ${at}/root
mount -t overlay overlay -o lowerdir=/,upperdir=${at}/upper,workdir=${at}/work ${at}/root
cd ${at}/root
mount --make-rshared . # a system extension appears by propagation
mount -t proc proc proc
mount --rbind /dev dev
mount --bind ${shared} mnt
rm -f var/lib/man-db/auto-update # an index of all manual pages would be made with each package
mount -t tmpfs tmpfs run
exec chroot . /bin/sh -ec "$1"`
  const isolated = ["unshare", "--mount", "--net", "--pid", "--fork", "--propagation", "private"]
  const env = { ...programEnv, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C", HOME: "/root" }
  return await runProgram([...isolated, "sh", "-ec", steps, "sh", script], { env })
}

export async function emptyRoot(): Promise<TemporaryDirectory> {
  const root = await TemporaryDirectory.create("cni-root")
  await mkdir(root.join("var/lib/rpm"), { recursive: true })
  await mustRun(["rpmdb", "--initdb", "--root", root.path])
  return root
}
