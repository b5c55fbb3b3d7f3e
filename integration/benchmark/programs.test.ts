import { expect, test } from "bun:test"
import { Load, type LoadKind, loads } from "../../bench/load.ts"
import { buildPrograms, programs } from "../../bench/programs.ts"
import { connect, HostNamespace, runProgram, Station, waitFor } from "../lab/mod.ts"

await buildPrograms()

test("traffic passes between two namespaces in every way, and is an error where nothing leads", async () => {
  await using host = await HostNamespace.create()
  const [near, far] = [await host.addContainer(), await host.addContainer()]
  await connect(
    { namespace: near, link: "eth0", addresses: ["192.0.2.1/24"] },
    { namespace: far, link: "eth0", addresses: ["192.0.2.2/24"] },
  )
  await using station = Station.open(near)
  const counted = async () => {
    const { stdout } = await far.exec("cat", ["/proc/net/snmp"])
    const [names = [], values = []] = [...stdout.matchAll(/^Tcp: (.*)$/gm)].map(([, line = ""]) => line.split(" "))
    return { opened: Number(values[names.indexOf("PassiveOpens")]), segments: Number(values[names.indexOf("InSegs")]) }
  }
  const time = async (what: string, count: number, port = 5000) => {
    const before = await counted()
    const command = [programs.traffic, what, far.path, 5000, "192.0.2.2", port, count].map(String)
    const { cpuMs } = await station.time({ command, env: {}, input: "" })
    const after = await counted()
    return { cpuMs, opened: after.opened - before.opened, segments: after.segments - before.segments }
  }
  const connections = await time("connections", 50)
  expect(connections.opened).toBe(50)
  expect(connections.cpuMs).toBeGreaterThan(0)
  const trips = await time("trips", 200)
  expect(trips.opened).toBe(1)
  expect(trips.segments).toBeGreaterThanOrEqual(200)
  const megabytes = await time("megabytes", 4)
  expect(megabytes.opened).toBe(1)
  expect(megabytes.segments).toBeGreaterThan((4 << 20) / 65_536)
  await expect(time("trips", 1, 5001)).rejects.toThrow("connect")
})

/** Returns the CPU time of a process in ticks; fields 14 and 15 of /proc/PID/stat. */
async function ticks(pid: string): Promise<number> {
  const fields = (await Bun.file(`/proc/${pid}/stat`).text()).split(") ")[1]?.split(" ") ?? []
  return Number(fields[11]) + Number(fields[12])
}

async function running(kind: LoadKind): Promise<string[]> {
  const { stdout } = await runProgram(["pgrep", "-f", "-P", String(process.pid), "--", loads[kind].command.join(" ")])
  return stdout.split("\n").filter(Boolean)
}

for (const kind of Object.keys(loads) as LoadKind[]) {
  test(`the load of kind ${kind} takes what it says, and ends`, async () => {
    {
      await using load = new Load(kind)
      const pids = await waitFor(async () => {
        const found = await running(kind)
        return found.length === loads[kind].count && found
      }, "the load")
      await waitFor(async () => (await ticks(pids[0] ?? "")) > 0, "the load to take processor time")
      expect(load.running).toBe(loads[kind].count)
      const files = await runProgram(["readlink", `/proc/${pids[0]}/fd/3`])
      if (kind === "disk") expect(files.stdout).toMatch(/^\/var\/tmp\/.*\(deleted\)$/m)
    }
    expect(await running(kind)).toEqual([])
  })
}
