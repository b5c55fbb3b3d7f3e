import { expect, test } from "bun:test"
import { mkdir } from "node:fs/promises"
import {
  type Attached,
  Attachment,
  bridgeNetwork,
  type Change,
  expectUnchanged,
  fail,
  HostNamespace,
  isAllocationTrace,
  mountOver,
  type PluginResult,
  pluginsAs,
  Stage,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  testPlugins,
} from "../lab/mod.ts"

/**
 * Makes the host like a node after a reboot: the kernel's network state and /run are empty, `/var/lib/cni` stays, and
 * /proc/sys/kernel/random/boot_id has a new value.
 */
async function boot(host: HostNamespace, disk: TemporaryDirectory): Promise<void> {
  await host.exec("mount", ["--bind", disk.join("lib"), "/var/lib/cni"])
  await Bun.write(disk.join("boot_id"), `${crypto.randomUUID()}\n`)
  await mountOver(host, "/proc/sys/kernel/random/boot_id", disk.join("boot_id"))
}

async function newDisk(): Promise<TemporaryDirectory> {
  const disk = await TemporaryDirectory.create("cni-disk")
  await mkdir(disk.join("lib"))
  return disk
}

/** An attachment from before the reboot, and the result of its ADD. */
interface Former extends Attached {
  readonly result: PluginResult
}

/** Runs DEL of the plugin, and of bridge for a chained plugin, without a namespace. */
async function deleteFormer({ attachment, maker, result }: Former): Promise<void> {
  await attachment.del({ prevResult: result })
  await maker?.del()
}

/** Returns the files in /var/lib/cni that contain the ID of one of these containers. */
async function filesOf(host: HostNamespace, containers: readonly string[]): Promise<string> {
  const patterns = containers.flatMap((name) => ["-e", name])
  const named = await host.exec("find", ["/var/lib/cni", "-type", "f", "-not", "-path", "*/.index/*"])
  const holding = await host.tryExec("grep", ["-rlF", "--exclude-dir=.index", ...patterns, "/var/lib/cni"])
  const files = named.stdout.split("\n").filter((file) => containers.some((name) => file.includes(name)))
  return [...files, holding.stdout].join("\n").trim()
}

testPlugins(
  pluginsAs(),
  "%s: after a reboot STATUS and ADD succeed, CHECK of an attachment from before says what is missing, DEL and GC leave nothing of it",
  async (plugin) => {
    await using disk = await newDisk()
    const formers: Former[] = []
    {
      await using stage = await Stage.create(plugin)
      await boot(stage.host, disk)
      await stage.settle()
      for (let count = 0; count < 3; count++) {
        const attached = await stage.attach()
        formers.push({ ...attached, result: await attached.attachment.add() })
      }
    }
    const [deleted, again, collected] = formers as [Former, Former, Former]

    await using stage = await Stage.create(plugin)
    const { host } = stage
    await boot(host, disk)
    const onHost = (former: Former): Former => ({
      ...former,
      attachment: former.attachment.on(host),
      maker: former.maker?.on(host),
    })
    await succeed(onHost(deleted).attachment.run("STATUS"))
    if (stage.role !== "ipam") {
      const { msg, details } = await fail(onHost(deleted).attachment.check(deleted.result))
      expect(`${msg}; ${details}`).toContain(deleted.pod.name)
    }
    await stage.settle()
    const before = await takeSnapshot(host)

    await deleteFormer(onHost(deleted))
    // podman restarts a container with the same ID and without a DEL.
    const restarted = await stage.attach({ containerId: again.pod.name })
    await restarted.attachment.add()
    const other = await stage.attach()
    const result = await other.attachment.add()
    await deleteFormer(onHost(deleted))
    const valid = [
      { containerID: again.pod.name, ifname: restarted.ifName },
      { containerID: other.pod.name, ifname: other.ifName },
    ]
    for (const gc of [other.attachment, other.maker])
      if (gc) await succeed(gc.run("GC", { "cni.dev/valid-attachments": valid }))
    expect(
      await filesOf(
        host,
        [deleted, collected].map(({ pod }) => pod.name),
      ),
    ).toBe("")
    await succeed(other.attachment.check(result))
    for (const { attachment, maker } of [restarted, other]) {
      await attachment.del()
      await maker?.del()
    }
    await deleteFormer(onHost(collected))
    const names = [...formers, other].map(({ pod }) => pod.name)
    expect(await filesOf(host, names)).toBe("")
    const isOfBefore = ({ section, sign }: Change) => section.startsWith("/var/lib/cni") && sign === "-"
    expectUnchanged(before, await takeSnapshot(host), (change) => isAllocationTrace(change) || isOfBefore(change))
  },
)

/** A network with addresses for five containers. */
const small = bridgeNetwork({ ipam: { type: "host-local", ranges: [[{ subnet: "10.22.0.0/29" }]] } })

test("after a reboot the addresses of a range that was full are free without DEL and GC; a late DEL takes none away", async () => {
  await using disk = await newDisk()
  const attach = async (host: HostNamespace) => new Attachment(host, await host.addContainer(), small)
  const addresses = ["10.22.0.2/29", "10.22.0.3/29", "10.22.0.4/29", "10.22.0.5/29", "10.22.0.6/29"]
  /** Runs ADD of a new container for each address. */
  const fill = async (host: HostNamespace) => {
    const attachments = await Promise.all(addresses.map(() => attach(host)))
    const given: string[] = []
    for (const attachment of attachments) given.push(...(await attachment.add()).ips.map(({ address }) => address))
    expect(given.sort()).toEqual(addresses)
    expect((await fail((await attach(host)).run("ADD"))).msg).toContain("no IP addresses available")
    return attachments
  }
  let formers: Attachment[]
  {
    await using host = await HostNamespace.create()
    await boot(host, disk)
    formers = await fill(host)
  }
  await using host = await HostNamespace.create()
  await boot(host, disk)
  const attachments = await fill(host)
  for (const former of formers) await former.on(host).del()
  for (const attachment of attachments) expect((await fail(attachment.run("ADD"))).msg).toContain("already exists")
  expect((await fail((await attach(host)).run("ADD"))).msg).toContain("no IP addresses available")
})
