import { expect, test } from "bun:test"
import {
  Attachment,
  type ContainerNamespace,
  HostNamespace,
  type Output,
  type PluginCall,
  type PluginResult,
  runTraced,
} from "../lab/mod.ts"

const config = {
  cniVersion: "1.1.0",
  name: "lab",
  type: "host-local",
  ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/29" }], [{ subnet: "fd00::/125" }]] },
}
const store = "/var/lib/cni/networks/lab"

/**
 * An argument of strace(1) with which statfs(2) reports NFS: struct statfs begins with the file system's type, 0x6969
 * in <linux/magic.h>.
 */
const onNfs = "statfs:poke_exit=@arg2=6969000000000000"

/** Runs host-local on a file system where link(2) fails, with further injected faults, under strace(1). */
async function withoutLinks(host: HostNamespace, pod: ContainerNamespace, verb: PluginCall["verb"], ...more: string[]) {
  const [errno = "EPERM", ...injections] = more
  const effects = [`linkat:error=${errno}`, ...injections].map((effect) => `inject=${effect}`)
  const traced = await runTraced(new Attachment(host, pod, config), verb, ["trace=linkat,fsync,statfs", ...effects])
  return traced.output
}

function addressesOf({ stdout }: Output): string[] {
  return (JSON.parse(stdout) as PluginResult).ips.map(({ address }) => address)
}

/** Returns every reservation file with its content and mode, from `stat` and `cat`. */
async function reservations(host: HostNamespace): Promise<string[]> {
  const { stdout } = await host.exec("find", [
    store,
    "-maxdepth",
    "1",
    "-name",
    "*[.:]*[0-9]",
    "!",
    "-name",
    "*reserved*",
  ])
  const files = stdout
    .split("\n")
    .filter((line) => line !== "")
    .sort()
  return Promise.all(
    files.map(async (file) => {
      const mode = (await host.exec("stat", ["-c", "%a", file])).stdout.trim()
      return `${file.slice(store.length + 1)} ${mode} ${(await host.exec("cat", [file])).stdout}`
    }),
  )
}

// The errors on vfat, on network and overlay file systems, and on kernels without the system call.
test.each(["EPERM", "EOPNOTSUPP", "ENOSYS", "EXDEV"])(
  "where link(2) is %s, reservations are made, checked and released as anywhere else",
  async (errno) => {
    await using host = await HostNamespace.create()
    const [first, second] = [await host.addContainer(), await host.addContainer()]
    const added = await withoutLinks(host, first, "ADD", errno)
    expect(addressesOf(added)).toEqual(["10.22.0.2/29", "fd00::2/125"])
    expect(addressesOf(await withoutLinks(host, second, "ADD", errno))).toEqual(["10.22.0.3/29", "fd00::3/125"])
    const file = ({ name }: ContainerNamespace) => `600 ${name}\r\neth0`
    expect(await reservations(host)).toEqual([
      `10.22.0.2 ${file(first)}`,
      `10.22.0.3 ${file(second)}`,
      `fd00::2 ${file(first)}`,
      `fd00::3 ${file(second)}`,
    ])
    const attachment = new Attachment(host, first, config)
    expect(await attachment.check(JSON.parse(added.stdout))).toMatchObject({ exitCode: 0 })
    expect((await withoutLinks(host, first, "ADD", errno)).stdout).toContain("duplicate allocation is not allowed")
    await attachment.del()
    expect(await reservations(host)).toEqual([`10.22.0.3 ${file(second)}`, `fd00::3 ${file(second)}`])
  },
)

test.each([1, 2])(
  "an ADD whose reservation number %d cannot be put on a disk that other hosts use leaves none",
  async (nth) => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    // The first fsync is for the temporary file that the plugin tries to link.
    const refused = await withoutLinks(host, pod, "ADD", "EPERM", onNfs, `fsync:error=EIO:when=${nth + 1}`)
    expect(refused).toMatchObject({ exitCode: 1, stdout: expect.stringContaining("EIO") })
    expect(await reservations(host)).toEqual([])
    expect(addressesOf(await withoutLinks(host, pod, "ADD"))).toHaveLength(2)
  },
)

test.each([1, 2, 3])(
  "an ADD on a disk that other hosts use, killed at its fsync number %d, blocks no address: DEL finds what it has made",
  async (nth) => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    expect((await withoutLinks(host, pod, "ADD", "EPERM", onNfs, `fsync:signal=KILL:when=${nth}`)).exitCode).toBe(137)
    await new Attachment(host, pod, config).del()
    expect(await reservations(host)).toEqual([])
  },
)
