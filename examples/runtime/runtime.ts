/**
 * A container runtime. It creates network namespaces by unshare(1), processes by crun(1), and networks by libcni.
 *
 *   node runtime.ts run [--network NET] [--publish HOSTPORT:PORT]... -- NAME ROOTFS COMMAND...
 *   node runtime.ts restart NAME      node runtime.ts rm NAME      node runtime.ts ps      node runtime.ts gc
 *
 * CNI_PATH, NETCONFPATH, CNI_CACHE and RUNTIME_DIR are the directories of plugins, networks, results and containers.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import {
  type Attachment,
  addNetwork,
  checkNetwork,
  delNetwork,
  gcNetwork,
  isCniError,
  loadNetwork,
  networkNames,
  type PortMapping,
  type Runtime,
} from "libcni"

const { CNI_PATH = "/opt/cni/bin", NETCONFPATH = "/etc/cni/net.d", CNI_CACHE = "/var/lib/cni" } = process.env
const containers = process.env.RUNTIME_DIR ?? "/run/libcni-runtime"
const interrupted = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => interrupted.abort(new Error(signal)))

const runtime: Runtime = {
  path: CNI_PATH.split(":"),
  cacheDir: CNI_CACHE,
  env: process.env,
  stderr: (chunk) => process.stderr.write(chunk),
  timeoutMs: 60_000,
  signal: interrupted.signal,
}

interface Container {
  readonly name: string
  readonly network: string
  readonly ports: readonly PortMapping[]
  /** The address that the network assigned. */
  readonly address?: string
  /** The process that creates the container. If it ended without removing this field, the container is incomplete. */
  readonly maker?: number
}

const directoryOf = (name: string) => join(containers, name)
const namespaceOf = (name: string) => join(directoryOf(name), "netns")

/** Runs a program and waits for its end. The output goes to a file, because a child may keep the output open. */
async function run(program: string, ...args: string[]): Promise<void> {
  const log = join(containers, ".log")
  const child = spawn(program, args, { stdio: ["ignore", "ignore", openSync(log, "w")] })
  const [exitCode] = await once(child, "exit") // throws if the program does not exist
  if (exitCode !== 0) throw new Error(`${program} failed: ${readFileSync(log, "utf8").trim()}`)
}

const crun = (...args: string[]) => run("crun", `--root=${join(containers, ".crun")}`, ...args)

/** Writes a record atomically: after a crash the file contains the new record or the previous one. */
function write(container: Container): void {
  const file = join(directoryOf(container.name), "container.json")
  writeFileSync(`${file}.new`, JSON.stringify(container))
  renameSync(`${file}.new`, file)
}

const read = (name: string): Container => JSON.parse(readFileSync(join(directoryOf(name), "container.json"), "utf8"))
const names = () => (existsSync(containers) ? readdirSync(containers).filter((name) => !name.startsWith(".")) : [])

/** Reports whether a container is complete, or is being created by a running process. */
function lives(name: string): boolean {
  try {
    const { maker } = read(name)
    return maker === undefined || existsSync(`/proc/${maker}`)
  } catch {
    return false // killed before the record was written
  }
}

function attachmentOf({ name, ports }: Pick<Container, "name" | "ports">): Attachment {
  return {
    containerId: name,
    netns: namespaceOf(name),
    ifName: "eth0",
    args: [["IgnoreUnknown", "1"]],
    capabilityArgs: ports.length > 0 ? { portMappings: ports } : {},
  }
}

async function attach(container: Container): Promise<Container> {
  const network = loadNetwork(NETCONFPATH, container.network)
  const { ips = [] } = await addNetwork(runtime, network, attachmentOf(container), { undo: true })
  return { ...container, ...(ips[0] ? { address: ips[0].address } : {}) }
}

async function detach({ network, ...container }: Container): Promise<void> {
  await delNetwork(runtime, loadNetwork(NETCONFPATH, network), attachmentOf(container))
}

/** Creates a container. Writes the record first, so that the remains can be found if this process is killed. */
async function make(container: Container, rootfs: string, command: readonly string[]): Promise<void> {
  const { name } = container
  mkdirSync(containers, { recursive: true, mode: 0o700 })
  mkdirSync(directoryOf(name))
  write({ ...container, maker: process.pid })
  try {
    writeFileSync(join(directoryOf(name), "config.json"), JSON.stringify(bundle(name, rootfs, command)))
    writeFileSync(namespaceOf(name), "")
    await run("unshare", `--net=${namespaceOf(name)}`, "true")
    const attached = await attach(container)
    await crun("run", "--detach", "--bundle", directoryOf(name), name)
    write(attached)
  } catch (error) {
    await remove(name)
    throw error
  }
}

/** Restarts a container's process in its network. Attaches it again if CHECK fails, as after a reboot or a flush. */
async function restart(name: string): Promise<void> {
  const container = read(name)
  await crun("delete", "--force", name)
  try {
    await checkNetwork(runtime, loadNetwork(NETCONFPATH, container.network), attachmentOf(container))
  } catch (error) {
    if (!isCniError(error)) throw error
    await detach(container)
    write(await attach(container))
  }
  await crun("run", "--detach", "--bundle", directoryOf(name), name)
}

/** Removes a container, even if it is incomplete. */
async function remove(name: string): Promise<void> {
  await crun("delete", "--force", name).catch(() => {})
  if (existsSync(join(directoryOf(name), "container.json"))) await detach(read(name))
  while (
    await run("umount", namespaceOf(name)).then(
      () => true,
      () => false,
    )
  );
  rmSync(directoryOf(name), { recursive: true, force: true })
}

/** Removes the remains of killed runtimes. */
async function collectGarbage(): Promise<void> {
  mkdirSync(containers, { recursive: true, mode: 0o700 })
  for (const name of names()) if (!lives(name)) await remove(name)
  const alive = () =>
    names()
      .filter(lives)
      .map((name) => ({ containerId: name, ifName: "eth0" }))
  for (const network of networkNames(NETCONFPATH)) await gcNetwork(runtime, loadNetwork(NETCONFPATH, network), alive)
}

/** Returns crun's input in the format of the Open Container Initiative's runtime specification. */
function bundle(name: string, rootfs: string, args: readonly string[]): object {
  const allowed = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID"]
  const capabilities = { bounding: allowed, effective: allowed, permitted: allowed }
  const spaces = ["pid", "mount", "ipc", "uts"].map((type) => ({ type }))
  return {
    ociVersion: "1.0.2",
    hostname: name,
    root: { path: rootfs },
    process: { args, cwd: "/", env: ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], user: { uid: 0, gid: 0 }, capabilities },
    mounts: [
      { destination: "/proc", type: "proc", source: "proc" },
      { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755"] },
    ],
    linux: { namespaces: [...spaces, { type: "network", path: namespaceOf(name) }] },
  }
}

/** Parses a port mapping such as "8080:80". */
function portOf(text: string): PortMapping {
  const [hostPort, containerPort] = text.split(":").map(Number)
  if (!hostPort || !containerPort) throw new Error(`"${text}" is no HOSTPORT:PORT`)
  return { hostPort, containerPort, protocol: "tcp" }
}

async function main(): Promise<void> {
  const options = { network: { type: "string" }, publish: { type: "string", multiple: true } } as const
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const [command, name = "", rootfs = "", ...args] = positionals
  await collectGarbage()
  const network = values.network ?? networkNames(NETCONFPATH)[0] ?? ""
  if (command === "run") await make({ name, network, ports: (values.publish ?? []).map(portOf) }, rootfs, args)
  else if (command === "restart") await restart(name)
  else if (command === "rm") await remove(name)
  else if (command === "ps") for (const one of names().map(read)) console.log(one.name, one.network, one.address ?? "-")
  else if (command !== "gc") throw new Error("expected run, restart, rm, ps or gc")
}

try {
  await main()
} catch (error) {
  console.error(isCniError(error) ? `Error ${error.code}: ${error}` : String(error))
  process.exitCode = 1
}
