import { expect, test } from "bun:test"
import { join } from "node:path"
import { HostNamespace, mustRun } from "../../lab/mod.ts"

const door = join(import.meta.dir, "../../../pkg/netns/mod.ts")

/**
 * Runs a program that enters a namespace, and returns the namespaces that the program saw. `report` is JavaScript that
 * runs inside.
 */
async function inside(path: string, report: string): Promise<{ before: string; within: string; after: string }> {
  const script = `
    const { Netns } = await import(${JSON.stringify(door)})
    const { readlinkSync } = await import("node:fs")
    const where = () => readlinkSync("/proc/thread-self/ns/net")
    using sandbox = Netns.open(${JSON.stringify(path)})
    const before = where()
    let within = ""
    try { within = sandbox.run(() => { ${report} }) } catch (error) { within = String(error.message) }
    console.log(JSON.stringify({ before, within, after: where() }))`
  return JSON.parse((await mustRun([process.execPath, "-e", script])).stdout)
}

test("a function runs in the namespace, and the thread comes back, also when it throws", async () => {
  await using host = await HostNamespace.create()
  const there = (await mustRun(["ip", "netns", "exec", host.name, "readlink", "/proc/self/ns/net"])).stdout.trim()
  const calm = await inside(host.path, "return where()")
  expect(calm.within).toBe(there)
  expect(calm.before).not.toBe(there)
  expect(calm.after).toBe(calm.before)
  const thrown = await inside(host.path, 'throw new Error("within " + where())')
  expect(thrown.within).toBe(`within ${there}`)
  expect(thrown.after).toBe(thrown.before)
})

test("each namespace is listed by the path where it is mounted, however that is written, else by a process in it", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const odd = "/run/cni/a b\tc\\d"
  await host.exec("touch", [odd, "/run/cni/uts"])
  await host.exec("unshare", [`--net=${odd}`, "--uts=/run/cni/uts", "true"])
  const script = `
    const { statSync } = await import("node:fs")
    const { findNamespacePath, listNamespaces, Netns } = await import(${JSON.stringify(door)})
    const child = Bun.spawn(["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], { stdout: "pipe" })
    await child.stdout.getReader().read()
    const paths = listNamespaces()
    const found = [${JSON.stringify(odd)}, "/proc/" + child.pid + "/ns/net"].map((path) => {
      const { ino } = statSync(path)
      return statSync(findNamespacePath(BigInt(ino)) ?? "/").ino === ino
    })
    const ours = ${JSON.stringify([odd, `/run/netns/${pod.name}`, `/run/netns/${host.name}`])}
    const all = [...ours, "/proc/" + child.pid + "/ns/net"].every((path) => Netns.find(path))
    console.log(JSON.stringify({ paths, pid: child.pid, found, all }))
    child.kill()`
  const { stdout } = await host.exec(process.execPath, ["-e", script])
  const { paths, pid, found, all } = JSON.parse(stdout)
  expect(paths).toContain(odd)
  expect(paths).toContain(`/run/netns/${pod.name}`)
  expect(paths).toContain(`/run/netns/${host.name}`) // the file in /run/netns, not a path in /proc
  expect(paths).toContain(`/proc/${pid}/ns/net`)
  expect({ found, all }).toEqual({ found: [true, true], all: true })
})

test("of namespaces that may not be entered none is found, and others are", async () => {
  await using host = await HostNamespace.create()
  await host.exec("mkdir", ["/run/cni/closed"])
  for (const path of ["/run/cni/closed/n", "/run/cni/open"]) {
    await host.exec("touch", [path])
    await host.exec("unshare", [`--net=${path}`, "true"])
  }
  const inodes = (await host.exec("stat", ["-c", "%i", "/run/cni/closed/n", "/run/cni/open"])).stdout.trim().split("\n")
  await host.exec("chmod", ["0", "/run/cni/closed"])
  const script = `
    const { findNamespacePath, listNamespaces } = await import(${JSON.stringify(door)})
    const found = ${JSON.stringify(inodes)}.map((inode) => findNamespacePath(BigInt(inode)) ?? "none")
    console.log(JSON.stringify({ listed: listNamespaces(), found }))`
  const powers = "--bounding-set=-dac_override,-dac_read_search"
  const { stdout } = await host.exec("setpriv", [powers, process.execPath, "-e", script])
  const { listed, found } = JSON.parse(stdout)
  expect(listed).toContain("/run/cni/closed/n")
  expect(found).toEqual(["none", "/run/cni/open"])
})
