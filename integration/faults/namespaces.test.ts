import { expect } from "bun:test"
import { readFile, symlink, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import {
  Attachment,
  bridgeNetwork,
  type Change,
  type ContainerNamespace,
  casesOf,
  expectUnchanged,
  fail,
  isAllocationTrace,
  isLeftToKernel,
  isLong,
  mustRun,
  namespacePids,
  pluginsAs,
  Stage,
  startDaemon,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  testPlugins,
  waitFor,
} from "../lab/mod.ts"
import { useTally } from "./figures.ts"

const count = useTally()

/** The plugins whose ADD enters the container's namespace. */
const entering = [
  ...pluginsAs("interface", "delegating", "device", "loopback"),
  ...pluginsAs("chained").filter((plugin) => !["portmap", "firewall"].includes(plugin)),
]

/**
 * Files that are not network namespaces. Each function returns the path of such a file, which it creates in `directory`
 * if necessary.
 */
const impostors: Readonly<Record<string, (directory: string) => Promise<string>>> = {
  "a regular file": async (directory) => {
    await writeFile(join(directory, "file"), "")
    return join(directory, "file")
  },
  "a directory": async (directory) => directory,
  "a FIFO": async (directory) => {
    await mustRun(["mkfifo", join(directory, "fifo")])
    return join(directory, "fifo")
  },
  "a device": async () => "/dev/zero",
  "another kind of namespace": async () => "/proc/self/ns/mnt",
  "a link to nowhere": async (directory) => {
    await symlink("nowhere", join(directory, "dangling"))
    return join(directory, "dangling")
  },
  "a link to itself": async (directory) => {
    await symlink("loop", join(directory, "loop"))
    return join(directory, "loop")
  },
  "a socket": async (directory) => {
    const server = createServer().listen(join(directory, "socket"))
    await new Promise((done) => server.once("listening", done))
    server.unref()
    return join(directory, "socket")
  },
  "a name that is too long": async () => `/run/netns/${"n".repeat(256)}`,
}

testPlugins(
  pluginsAs(),
  "%s: what is not a network namespace is told to ADD and CHECK, changes nothing, and to DEL is one that no longer exists",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    await using directory = await TemporaryDirectory.create()
    const { attachment, pod } = await stage.attach()
    const before = await takeSnapshot(host)
    const result = await attachment.add()
    const [added, inside] = [await takeSnapshot(host), await takeSnapshot(pod)]
    const names = Object.keys(impostors)
    const turn = pluginsAs().indexOf(plugin)
    for (const [at, name] of names.entries()) {
      if (!isLong && plugin !== "bridge" && (at + turn) % 3 !== 0) continue
      await count("a path that is not a network namespace", async () => {
        const netns = (await impostors[name]?.(directory.path)) ?? ""
        if (entering.includes(plugin)) {
          const refusal = await fail(attachment.run("ADD", {}, { netns, containerId: "another" }))
          expect({ name, code: refusal.code }).toEqual({ name, code: 4 })
          expect(refusal.msg).toStartWith(`Cannot use "${netns}" as CNI_NETNS`)
          expect((await fail(attachment.run("CHECK", { prevResult: result }, { netns }))).code).not.toBe(3)
        }
        await succeed(attachment.run("DEL", {}, { netns, containerId: "another" }))
        expectUnchanged(added, await takeSnapshot(host), isAllocationTrace)
      })
    }
    expectUnchanged(inside, await takeSnapshot(pod))
    await succeed(attachment.run("DEL", {}, { netns: "/dev/null" }))
    const isLeft = (change: Change) => isAllocationTrace(change) || isLeftToKernel(plugin, change)
    expectUnchanged(before, await takeSnapshot(host), isLeft)
  },
)

const ownPaths: readonly {
  way: string
  isGone: boolean
  path: (stage: Stage, directory: string) => Promise<string>
}[] = [
  { way: "its path", isGone: false, path: async ({ host }) => host.path },
  {
    way: "a link",
    isGone: false,
    path: async ({ host }, directory) => {
      await symlink(host.path, join(directory, "link"))
      return join(directory, "link")
    },
  },
  {
    way: "a bind mount",
    isGone: false,
    path: async ({ host }, directory) => {
      await writeFile(join(directory, "mount"), "")
      await host.exec("mount", ["--bind", host.path, join(directory, "mount")]) // mounted only in the host's mount namespace
      return join(directory, "mount")
    },
  },
  {
    way: "a process",
    isGone: true,
    path: async ({ host }) => `/proc/${(await namespacePids(host.name))[0]}/ns/net`,
  },
  {
    way: "a thread",
    isGone: true,
    path: async ({ host }) => {
      const [pid] = await namespacePids(host.name)
      return `/proc/${pid}/task/${pid}/ns/net`
    },
  },
]

testPlugins(
  casesOf(pluginsAs(), isLong ? ownPaths : ownPaths.filter(({ way }) => way === "a bind mount" || way === "a thread")),
  "$plugin: the host's own namespace by $way: ADD is refused, CHECK and DEL change nothing that is the host's",
  async ({ plugin, path, isGone }) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    await using directory = await TemporaryDirectory.create()
    const netns = await path(stage, directory.path)
    const { attachment } = await stage.attach()
    const before = await takeSnapshot(host)
    await count("the host's own namespace", async () => {
      expect((await fail(attachment.run("ADD", {}, { netns }))).code).toBe(8)
      const result = await attachment.add()
      const added = await takeSnapshot(host)
      await attachment.run("CHECK", { prevResult: result }, { netns })
      expectUnchanged(added, await takeSnapshot(host), isAllocationTrace)
      const output = await attachment.run("DEL", {}, { netns })
      expect(output).toMatchObject(isGone ? { exitCode: 0, stdout: "" } : { exitCode: 1, json: { code: 8 } })
      if (!isGone) expectUnchanged(added, await takeSnapshot(host))
      await attachment.del()
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    })
  },
)

testPlugins(
  pluginsAs(),
  "%s: DEL by a path that is another container's by now leaves that one alone, and the host is cleaned up",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { host } = stage
    await stage.settle()
    const other = await stage.attach()
    if (stage.role === "loopback") await new Attachment(host, other.pod, bridgeNetwork()).add() // like a usual container, it has an interface besides `lo`
    await other.attachment.add()
    const one = await stage.attach()
    const before = await takeSnapshot(host)
    await one.attachment.add()
    const inside = await takeSnapshot(other.pod)
    await count("a path that is another container's by now", async () => {
      await one.attachment.del({}, { netns: other.pod.path })
      expectUnchanged(inside, await takeSnapshot(other.pod))
      const isLeft = (change: Change) => isAllocationTrace(change) || isLeftToKernel(plugin, change)
      expectUnchanged(before, await takeSnapshot(host), isLeft)
      await one.attachment.del()
      expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    })
  },
)

/** Replaces a container's namespace by a namespace that a user namespace owns. */
async function giveToUser(pod: ContainerNamespace): Promise<void> {
  await using directory = await TemporaryDirectory.create()
  const file = directory.join("pid")
  await startDaemon(["unshare", "-Ur", "-n", "sh", "-c", `echo $$ > ${file}; exec sleep infinity`])
  const pid = await waitFor(
    async () => (await readFile(file, "utf8")).trim() || undefined,
    "a process with a user namespace",
  )
  await mustRun(["ip", "netns", "delete", pod.name])
  await mustRun(["ip", "netns", "attach", pod.name, pid])
}

testPlugins(pluginsAs(), "%s: a container whose namespace a user namespace owns is like any other", async (plugin) => {
  await using stage = await Stage.create(plugin)
  const { host } = stage
  await stage.settle()
  const pod = await host.addContainer()
  await giveToUser(pod)
  const { attachment } = await stage.attach({ pod })
  const before = await takeSnapshot(host)
  const inside = await takeSnapshot(pod)
  await count("a container of a user namespace", async () => {
    const result = await attachment.add()
    await succeed(attachment.check(result))
    await attachment.del()
    expectUnchanged(before, await takeSnapshot(host), isAllocationTrace)
    if (stage.role !== "loopback") expectUnchanged(inside, await takeSnapshot(pod))
  })
})
