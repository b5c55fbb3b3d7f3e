/**
 * Tests `cni reconcile --containers` while a hostile container changes its namespace: the command ends, changes nothing
 * of other programs, and restores the other containers.
 */
import { expect, test } from "bun:test"
import { podsNetwork } from "../cni/node-lab.ts"
import { type Change, expectUnchanged, isAllocationTrace, scaleTimeout, takeSnapshot } from "../lab/mod.ts"
import { madeFor, type Published, ReconcileLab } from "./reconcile-lab.ts"

const network = { ...podsNetwork, plugins: [...podsNetwork.plugins, { type: "tuning", mtu: 1400 }, { type: "sbr" }] }
const lines = (count: number, line: (at: number) => string) => Array.from({ length: count }, (_, at) => line(at))

/** The commands of a program in the hostile container. Whether the container itself is restored is not tested. */
const wild: readonly { what: string; commands: readonly string[] }[] = [
  {
    what: "routes, rules, addresses and links by the thousand",
    commands: [
      "link add a0 type veth peer name b0",
      "link set a0 up",
      "link set b0 up",
      ...lines(200, (at) => `link add n${at} type veth peer name m${at}`),
      ...lines(2_000, (at) => `address add 198.18.${at >> 8}.${at & 255}/32 dev a0`),
      ...lines(60_000, (at) => `route add 100.${64 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}/32 dev a0 table 7`),
      ...lines(3_000, (at) => `rule add from 198.19.${at >> 8}.${at & 255} lookup 7 priority ${5000 + at}`),
      "address delete 10.85.0.2/24 dev eth0",
    ],
  },
  {
    what: "an interface whose name has terminal codes in the place of its own",
    commands: ["link set eth0 down", "link set eth0 name \u001b[31mroot", "link add eth0 type bridge"],
  },
  {
    what: "an interface of the same kind and name that leads nowhere",
    commands: ["link set eth0 down", "link set eth0 name gone", "link add eth0 type veth peer name eth9"],
  },
  {
    what: "another one that has its name as an alternative one",
    commands: [
      "link set eth0 down",
      "link set eth0 name gone",
      "link add x type bridge",
      "link property add dev x altname eth0",
    ],
  },
]

test.each(wild)(
  "$what",
  async ({ commands }) => {
    await using lab = await ReconcileLab.create(network)
    const [hostile, neighbour] = (await lab.addPods(2)) as [Published, Published]
    await lab.reconcile() // creates the directory of marks
    const before = await takeSnapshot(lab.host)
    const failing = await hostile.pod.tryExec("ip", ["-force", "-batch", "-"], { input: `${commands.join("\n")}\n` })
    expect(failing.stderr).toBe("")
    await neighbour.pod.exec("ip", ["address", "flush", "dev", "eth0"])
    const { stdout, stderr, cpuMs } = await lab.node.cni(["reconcile", "--containers", "-o", "json"])
    expect(`${stdout}${stderr}`).not.toContain("\u001b")
    expect((await lab.node.onTerminal(["reconcile", "--containers", "--dry-run"])).stdout).not.toContain("\u001b[31m")
    // The CPU time that CHECK of three plugins may use. Each CHECK ends after 4 seconds.
    expect(cpuMs).toBeLessThan(20_000)
    const { restored } = JSON.parse(stdout)
    expect(restored).toContainEqual(madeFor(neighbour, "bridge", 'interface "eth0" in the container'))
    const isOfLink = ({ line }: Change) => line.includes("link-netns")
    expectUnchanged(before, await takeSnapshot(lab.host), (change) => isAllocationTrace(change) || isOfLink(change))
    await lab.removePods([hostile, neighbour])
  },
  scaleTimeout(300_000),
)

test("a path that leads to another container, or to the host, by now is refused, and nothing changes there", async () => {
  await using lab = await ReconcileLab.create(network)
  const [swapped, other] = (await lab.addPods(2)) as [Published, Published]
  await lab.reconcile() // creates the directory of marks
  const before = await takeSnapshot(lab.host)
  const lookInside = () => other.pod.exec("ip", ["-batch", "-"], { input: "address\nroute show table all\nrule\n" })
  const inside = (await lookInside()).stdout
  for (const [target, reason] of [
    [other.pod.path, "belongs to another container"],
    [lab.host.path, "does not exist"],
  ] as const) {
    const { name, path } = swapped.pod
    const record = lab.host.file(`/var/lib/cni/results/pods-${name}-eth0`)
    const written = await Bun.file(record).text()
    await Bun.write(record, written.replaceAll(path, target))
    const { stdout, stderr } = await lab.node.cni(["reconcile", "--containers", "-o", "json"])
    expect(`${stdout}${stderr}`).toContain(reason)
    expect(JSON.parse(stdout).restored).toEqual([])
    expect((await lookInside()).stdout).toBe(inside)
    await Bun.write(record, written)
  }
  expectUnchanged(before, await takeSnapshot(lab.host), isAllocationTrace)
})
