import { expect, test } from "bun:test"
import { readFile, readlink, realpath } from "node:fs/promises"
import { join } from "node:path"
import { builtPlugins, fail, HostNamespace, programEnv, runPlugin, TemporaryDirectory, waitFor } from "../lab/mod.ts"

/**
 * The memory areas in /proc/PID/maps by start address: the access, like `rw-p`, and the file or the name of the area.
 */
type Mappings = ReadonlyMap<string, { readonly access: string; readonly what: string }>

async function mappingsOf(pid: number): Promise<Mappings> {
  const rows = (await readFile(`/proc/${pid}/maps`, "utf8")).trim().split("\n")
  const fields = rows.map((row) => row.split(/ +/))
  return new Map(fields.map(([at = "", access = "", , , , what = ""]) => [at.split("-")[0] ?? "", { access, what }]))
}

/** Starts a program that waits. Returns the program's memory areas when `isWaiting` accepts its stderr. */
async function mappingsWaiting(command: readonly string[], isWaiting: (stderr: string) => boolean): Promise<Mappings> {
  const program = Bun.spawn([...command], {
    env: {
      ...programEnv,
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "a",
      CNI_NETNS: "/run/netns/a",
      CNI_IFNAME: "eth0",
      CNI_PATH: "/",
    },
    stdin: "pipe",
    stdout: "ignore",
    stderr: "pipe",
  })
  try {
    let said = ""
    const decoder = new TextDecoder()
    const reading = (async () => {
      for await (const piece of program.stderr) said += decoder.decode(piece, { stream: true })
    })()
    await waitFor(
      async () => isWaiting(said) && (await isExecuted(program.pid, command[0])),
      `"${command.join(" ")}" to wait`,
    )
    const found = await mappingsOf(program.pid)
    program.kill("SIGKILL")
    await reading
    return found
  } finally {
    program.kill("SIGKILL")
    await program.exited
  }
}

/** Reports whether a started process already executes its program. */
async function isExecuted(pid: number, program = ""): Promise<boolean> {
  return (await readlink(`/proc/${pid}/exe`)) === (await realpath(program))
}

/** Returns the memory areas of the dhcp daemon when it serves requests. */
async function mappingsOfDaemon(): Promise<Mappings> {
  await using directory = await TemporaryDirectory.create()
  const places = ["-socketpath", directory.join("sock"), "-statedir", directory.join("leases")]
  return await mappingsWaiting([join(builtPlugins, "dhcp"), "daemon", ...places], (said) => said.includes("serving"))
}

const addresses = (mappings: Mappings, of: (what: string) => boolean) =>
  [...mappings].filter(([, { what }]) => of(what)).map(([at]) => at)

test("nothing of the daemon of dhcp, which listens to the network, lies where it lies in another process of it [S114]", async () => {
  const processes = [await mappingsOfDaemon(), await mappingsOfDaemon(), await mappingsOfDaemon()]
  const all = processes.flatMap((mappings) => addresses(mappings, (what) => what !== "[vsyscall]")) // [vsyscall] is the kernel's and not readable
  expect(processes.map((mappings) => addresses(mappings, (what) => what.endsWith("/dhcp")).length)).toEqual([5, 5, 5])
  expect(all.filter((at, index) => all.indexOf(at) !== index)).toEqual([])
})

test("its tables of addresses can be read only once it runs [S115]", async () => {
  const own = [...(await mappingsOfDaemon()).values()].filter(({ what }) => what.endsWith("/dhcp"))
  expect(own.map(({ access }) => access)).toEqual(["r--p", "r-xp", "r--p", "r--p", "rw-p"])
})

test("other plugins lie where their file says, but for stack and areas of the kernel's choice", async () => {
  const bridge = () => mappingsWaiting([join(builtPlugins, "bridge")], () => true)
  const [one, other] = [await bridge(), await bridge()]
  const ofFile = (what: string) => what.endsWith("/bridge")
  expect(addresses(one, ofFile)).toEqual(addresses(other, ofFile))
  expect(addresses(one, ofFile)[0]).toBe("0ffff000")
  const stack = (what: string) => what === "[stack]"
  expect(addresses(one, stack)).not.toEqual(addresses(other, stack))
})

test("a plugin runs dhcp in its own process, though that file starts in another way", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create()
  const pod = await host.addContainer()
  const config = {
    cniVersion: "1.1.0",
    name: "lab",
    type: "ptp",
    ipam: { type: "dhcp", daemonSocketPath: "/run/cni/none.sock" },
  }
  const strace = ["strace", "-f", "-o", directory.join("trace"), "-e", "trace=execve"]
  const call = { verb: "ADD", containerId: pod.name, netns: pod.path, ifName: "eth0", config } as const
  const error = await fail(runPlugin(host, { bin: join(builtPlugins, "ptp"), under: strace, ...call }))
  expect(error.msg).toContain("/run/cni/none.sock")
  const started = [...(await readFile(directory.join("trace"), "utf8")).matchAll(/execve\("([^"]*)/g)].map(
    ([, path]) => path,
  )
  expect(started).toEqual([join(builtPlugins, "ptp")])
})
