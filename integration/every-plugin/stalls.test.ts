import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { startDnsmasq } from "../dhcp/servers.ts"
import { Site } from "../dhcp/site.ts"
import {
  type ContainerNamespace,
  type Feature,
  type HostNamespace,
  hasFeature,
  hostFor,
  linkNames,
  type PluginCall,
  type PluginOutput,
  pluginRow,
  pluginsAs,
  Stage,
  scaleTimeout,
  testWhereItRuns,
  testWith,
  waitFor,
} from "../lab/mod.ts"

/**
 * The number of objects of each kind that a container creates. The number is smaller on an emulated machine, which
 * would take minutes.
 */
const MANY = scaleTimeout(1) > 1 ? 250 : 10_000
/**
 * The time limit of a verb in milliseconds. Other programs slow a verb down, so its CPU time must stay below twice this
 * limit, and its wall time below fifty times this limit. A verb that waits 25 ms for each link uses no CPU time, but
 * exceeds the second limit.
 */
const BOUND_MS = 2000

/** Link types with an owner in the alias that this kernel supports. */
const kinds = (["macvlan", "ipvlan", "vlan", "dummy", "ifb", "vrf"] as const satisfies Feature[]).filter(hasFeature)
/** Returns the arguments of `ip link add` for the link number `at`. `base0` to `base3` are possible parents. */
const makers: Readonly<Record<(typeof kinds)[number], (at: number) => string>> = {
  macvlan: (at) => `link add link base0 name x${at} type macvlan`,
  ipvlan: (at) => `link add link base1 name x${at} type ipvlan`,
  vlan: (at) => `link add link base${2 + (at & 1)} name x${at} type vlan id ${1 + (at >> 2)}`,
  dummy: (at) => `link add name x${at} type dummy`,
  ifb: (at) => `link add name x${at} type ifb`,
  vrf: (at) => `link add name x${at} type vrf table ${5000 + at}`,
}

const each = (line: (at: number) => string, count = MANY) => Array.from({ length: count }, (_, at) => line(at))
const low = (at: number) => `${at >> 8}.${at & 255}`
const hex = (at: number) => at.toString(16)

/** Runs a command with `-batch`. Ignores lines that the kernel refuses. */
async function batch(pod: ContainerNamespace, program: string, lines: readonly string[]): Promise<void> {
  const [file = "", ...options] = program.split(" ")
  await pod.tryExec(file, [...options, "-force", "-batch", "-"], { input: `${lines.join("\n")}\n` })
}

/** Adds many objects of every kind to a container. The aliases of all links name the same attachment. */
async function crowd(pod: ContainerNamespace, alias: string): Promise<void> {
  await batch(pod, "ip", [
    ...each((at) => `link add base${at} type bridge`, 4),
    ...each((at) => makers[kinds[at % kinds.length] ?? "ifb"](at)),
    ...each((at) => `link set x${at} alias ${alias}`),
    ...each((at) => `link property add dev x${at >> 5} altname other-name-${at}`),
    ...each((at) => `rule add from 198.18.${low(at)} table 99`),
    ...each((at) => `address add 198.19.${low(at)}/16 dev base0`),
  ])
  await batch(
    pod,
    "ip -6",
    each((at) => `rule add from 2001:db8::${hex(at)} table 99`),
  )
  await batch(
    pod,
    "tc",
    each((at) => `qdisc add dev x${at} root pfifo`),
  )
}

/**
 * Adds many objects to an interface. A link can have at most 480 alternative names. Adds fewer classes, because the
 * kernel needs minutes for 10,000.
 */
async function crowdInterface(pod: ContainerNamespace, name: string): Promise<void> {
  const dev = `dev ${name}`
  await batch(pod, "ip", [
    ...each((at) => `address add ${name === "lo" ? 127 : 10}.200.${low(at)}/8 ${dev}`),
    ...each((at) => `route add 172.17.${low(at)} ${dev}`),
    ...each((at) => `neighbour add 172.18.${low(at)} lladdr 02:00:00:00:00:01 nud permanent ${dev}`),
    ...each((at) => `link property add ${dev} altname a${at}`, 480),
  ])
  await batch(
    pod,
    "ip -6",
    each((at) => `route add 2001:db8:1::${hex(at)} ${dev}`),
  )
  await batch(pod, "tc", [
    `qdisc add ${dev} root handle 2: htb`,
    ...each((at) => `class add ${dev} parent 2: classid 2:${hex(at + 2)} htb rate 1mbit`, 500),
    ...each((at) => `qdisc add ${dev} parent 2:${hex(at + 2)} bfifo limit 10000`, 500),
  ])
}

/** Waits for a verb, and checks its CPU time and wall time. */
async function inTime(verb: PluginCall["verb"], call: Promise<PluginOutput>): Promise<PluginOutput> {
  const output = await call
  const { cpuMs, durationMs } = output
  expect({ verb, cpuMs, isInTime: cpuMs < scaleTimeout(2 * BOUND_MS) }).toMatchObject({ isInTime: true })
  expect({ verb, durationMs, isInTime: durationMs < scaleTimeout(50 * BOUND_MS) }).toMatchObject({ isInTime: true })
  return output
}

const tooMuch = "the container's list is too long"
const noneValid = { "cni.dev/valid-attachments": [] }

/** Checks that ADD or CHECK succeeded, or failed because the container's list is too long. */
function expectDoneOrTold({ exitCode, stdout }: PluginOutput): void {
  if (exitCode !== 0) expect(stdout).toContain(tooMuch)
}

describe("a container that has thousands of all that it can make", () => {
  const staged = pluginsAs().filter((plugin) => pluginRow(plugin).staged !== false)
  let host: HostNamespace
  let pod: ContainerNamespace

  beforeAll(async () => {
    host = await hostFor(...staged.filter((plugin) => pluginRow(plugin).needs?.every(hasFeature) ?? true))
    pod = await host.addContainer()
    await crowd(pod, `lab/${pod.name}/eth0`)
  }, scaleTimeout(900_000))

  afterAll(() => host[Symbol.asyncDispose](), scaleTimeout(900_000))

  for (const plugin of staged) {
    testWhereItRuns(
      plugin,
      `${plugin}: each verb ends within 2 s, however many links, addresses, routes, rules, neighbours, qdiscs and names the container has [S63]`,
      async () => {
        const stage = Stage.on(host, plugin)
        const attached = await stage.attach({ pod })
        const { attachment, maker, ifName } = attached
        const run = (verb: PluginCall["verb"], keys: object = {}) => inTime(verb, attachment.run(verb, keys))
        try {
          const added = await run("ADD")
          expectDoneOrTold(added)
          const filled = stage.interfaceOf(attached)
          if (filled) await crowdInterface(pod, filled)
          if (added.exitCode === 0) expectDoneOrTold(await run("CHECK", { prevResult: added.json }))
          const kept = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: ifName }] }
          expect(await run("GC", kept)).toMatchObject({ exitCode: 0, stdout: "" })
          expect(await run("STATUS")).toMatchObject({ exitCode: 0, stdout: "" })
          expect(await run("DEL")).toMatchObject({ exitCode: 0, stdout: "" })
          await maker?.del()
          // Now only forged objects name the attachment.
          expect(await run("DEL")).toMatchObject({ exitCode: 0, stdout: "" })
          expect(await run("GC", noneValid)).toMatchObject({ exitCode: 0, stdout: "" })
        } finally {
          for (const each of [attachment, maker]) await each?.run("DEL")
        }
      },
    )
  }
})

/** Checks that the call succeeded, and that it reported the links that are left, if any. */
function expectToldIfLeft({ exitCode, stdout, stderr }: PluginOutput, left: readonly string[]): void {
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "" })
  if (left.length === 0) expect(stderr).toBe("")
  else expect(stderr).toContain(`${tooMuch} (ETIME); the rest is deleted with the container's namespace`)
}

testWith(
  ["macvlan"],
  "macvlan: DEL deletes 1,500 links that say they are the attachment's, which it does not find by its name, in batches, and no other [S67]",
  async () => {
    await using stage = await Stage.create("macvlan")
    const { pod, attachment } = await stage.attach()
    await attachment.add()
    await batch(pod, "ip", [
      "link set eth0 name renamed",
      "link add base type bridge",
      ...each((at) => `link add link base name x${at} type macvlan`, 1500),
      ...each((at) => `link set x${at} alias lab/${pod.name}/eth0`, 1500),
      "link add link base name other type macvlan",
    ])
    const deleted = await inTime("DEL", attachment.run("DEL"))
    const isOurs = (name: string) => name.startsWith("x") || name === "renamed"
    const left = await linkNames(pod)
    expectToldIfLeft(deleted, left.filter(isOurs))
    expect(left.filter((name) => !isOurs(name)).sort()).toEqual(["base", "lo", "other"])
  },
)

testWith(
  ["ifb", "tbf"],
  "bandwidth: GC gets to each container, however many forged devices there are in others, and says where it has left some [S68]",
  async () => {
    await using stage = await Stage.create("bandwidth")
    const keys = { shapeIn: "container" }
    const crowded = [await stage.attach({ keys }), await stage.attach({ keys })]
    for (const { pod, attachment } of crowded) {
      await attachment.add()
      await batch(pod, "ip", [
        ...each((at) => `link add x${at} type ifb`, 1000),
        ...each((at) => `link set x${at} alias lab/${pod.name}/net${at}`, 1000),
      ])
    }
    const other = await stage.attach({ keys })
    const before = await linkNames(other.pod)
    await other.attachment.add()
    expect(await linkNames(other.pod)).not.toEqual(before)
    const collected = await inTime("GC", other.attachment.run("GC", noneValid))
    expect(await linkNames(other.pod)).toEqual(before)
    const left = await Promise.all(crowded.map(({ pod }) => linkNames(pod)))
    expectToldIfLeft(
      collected,
      left.flat().filter((name) => name.startsWith("x")),
    )
  },
)

testWith(
  ["ifb", "tbf"],
  "bandwidth: DEL ends within 2 s where 10,000 filters lead to the attachment's device in the container [S69]",
  async () => {
    await using stage = await Stage.create("bandwidth")
    const { pod, attachment } = await stage.attach({ keys: { shapeIn: "container" } })
    const { interfaces } = await attachment.add()
    const add = (at: number) => `filter add dev eth0 parent ffff: protocol all prio ${2 + (at % 10)} u32 match u32 0 0`
    await batch(pod, "tc", [
      ...each((at) => `${add(at)} action mirred egress redirect dev ${interfaces.at(-1)?.name}`),
      ...each((at) => `${add(at)} flowid 9:9`, 10), // filters of the container, so no priority may be deleted as a whole
    ])
    const deleted = await inTime("DEL", attachment.run("DEL"))
    expect(deleted).toMatchObject({ exitCode: 0, stdout: "" })
    const { stdout } = await pod.exec("tc", ["filter", "show", "dev", "eth0", "parent", "ffff:"])
    expect(stdout.match(/flowid 9:9/g)).toHaveLength(10)
    if (deleted.stderr === "") expect(stdout).not.toContain("mirred")
    else expect(deleted.stderr).toContain(tooMuch)
  },
)

test("dhcp: each verb ends within 2 s in such a container, and its address is given back", async () => {
  await using site = await Site.create("bridge")
  const range = "--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m"
  await using server = await startDnsmasq(site.server, site.directory.path, [range])
  const { pod, attachment } = await site.attach()
  const prevResult = await attachment.add()
  await crowd(pod, `net/${pod.name}/eth0`)
  await crowdInterface(pod, "eth0")
  expectDoneOrTold(await inTime("CHECK", attachment.run("CHECK", { prevResult })))
  const kept = { "cni.dev/valid-attachments": [{ containerID: pod.name, ifname: "eth0" }] }
  expect(await inTime("GC", attachment.run("GC", kept))).toMatchObject({ exitCode: 0, stdout: "" })
  expect(await inTime("DEL", attachment.run("DEL"))).toMatchObject({ exitCode: 0, stdout: "" })
  await waitFor(async () => !(await server.leases()).includes(" 10.1.2."), "the server to have the address again")
})
