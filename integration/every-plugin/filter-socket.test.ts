import { expect, test } from "bun:test"
import { runTraced, Stage, testPlugins } from "../lab/mod.ts"

/** The plugins that delete objects of nf_tables, with the keys that they require. */
const keysOf: Readonly<Record<string, object>> = {
  bridge: { ipMasq: true },
  ptp: { ipMasq: true },
  portmap: {},
  firewall: {},
}

/**
 * Returns the descriptors of netfilter sockets that a traced call opened, and the ones among them that it sent to
 * another process before it closed them.
 */
function filterSockets(trace: string): { opened: string[]; left: string[] } {
  const lines = trace.split("\n").map((line) => line.replace(/^\d+ +/, ""))
  const opened = lines.flatMap((line) => /^socket\(.*NETLINK_NETFILTER\) = (\d+)$/.exec(line)?.[1] ?? [])
  const left = opened.filter((fd) => {
    const handedOver = lines.findIndex((line) => line.startsWith("sendmsg(") && line.includes(`cmsg_data=[${fd}, `))
    const end = lines.findIndex((line, at) => at > handedOver && line.startsWith(`close(${fd})`))
    return handedOver >= 0 && end > handedOver
  })
  return { opened, left }
}

// Closing a netfilter socket waits until the kernel has freed the objects that any process deleted just before. During
// this wait no process can change rules or delete links. With three sockets for each container, many DELs at once are
// therefore slower.
testPlugins(
  Object.keys(keysOf),
  "%s: DEL opens one socket of the packet filter, and leaves its closing to the kernel",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const keys = { ...keysOf[plugin] }
    const resident = await stage.attach({ keys })
    await resident.attachment.add()
    const { attachment } = await stage.attach({ keys })
    const prevResult = await attachment.add()
    const { output, text } = await runTraced(attachment, "DEL", ["trace=socket,sendmsg,close"], { prevResult })
    expect(output).toMatchObject({ exitCode: 0 })
    const { opened, left } = filterSockets(text)
    expect(opened).toHaveLength(1)
    expect(left).toEqual(opened)
  },
)

/** Returns the number of datagrams and bytes that a traced call received by netlink. */
function receivedIn(trace: string): { datagrams: number; bytes: number } {
  const lengths = [...trace.matchAll(/ recvfrom\(.* = (\d+)$/gm)].map(([, length]) => Number(length))
  return { datagrams: lengths.length, bytes: lengths.reduce((all, length) => all + length, 0) }
}

const addressOf = (index: number) => `10.9.${index >> 8}.${index & 255}`

/** The elements of another container in the plugin's tables. */
const elementsOf: Readonly<Record<string, (index: number, bridge: string) => string[]>> = {
  portmap: (index) => [
    `ip cni_hostports ports { tcp . ${20_000 + index} comment "other/c${index}/eth0" : ${addressOf(index)} . 80 }`,
  ],
  firewall: (index, bridge) => [
    `inet cni_firewall containers { ${addressOf(index)} comment "other/c${index}/eth0" }`,
    `inet cni_firewall same_bridge { "${bridge}" . "veth${index}" comment "other/c${index}/eth0" }`,
  ],
}

// The kernel continues a dump with every receive until its end. A plugin that stopped after the first elements would
// therefore make a later request read all 4,000.
testPlugins(
  Object.keys(elementsOf),
  "%s: CHECK and DEL receive the same beside 1,000 containers and beside 4,000; DEL leaves each socket's closing to the kernel",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const resident = await (await stage.attach()).attachment.add()
    const bridge = resident.interfaces?.[0]?.name ?? ""
    const fill = (from: number, to: number) => {
      const elements = Array.from({ length: to - from }, (_, at) => elementsOf[plugin]?.(from + at, bridge) ?? [])
      const input = elements.flat().map((element) => `add element ${element}\n`)
      return stage.host.exec("nft", ["-f", "-"], { input: input.join("") })
    }
    const checkAndDelete = async () => {
      const { attachment } = await stage.attach()
      const prevResult = await attachment.add()
      const call = async (verb: "CHECK" | "DEL") => {
        const { output, text } = await runTraced(attachment, verb, ["trace=socket,sendmsg,close,recvfrom"], {
          prevResult,
        })
        expect(output).toMatchObject({ exitCode: 0 })
        return { ...receivedIn(text), ...filterSockets(text) }
      }
      return { CHECK: await call("CHECK"), DEL: await call("DEL") }
    }
    await fill(0, 1_000)
    const few = await checkAndDelete()
    await fill(1_000, 4_000)
    const many = await checkAndDelete()
    for (const verb of ["CHECK", "DEL"] as const) {
      expect(many[verb]).toMatchObject({ datagrams: few[verb].datagrams, opened: few[verb].opened })
      expect(many[verb].bytes).toBeLessThan(few[verb].bytes + 8_192) // the kernel does not fill all datagrams equally
    }
    for (const { opened, left } of [few.DEL, many.DEL]) expect(left).toEqual(opened)
  },
)

test("bridge: DEL lists the tables, and asks about no absent one", async () => {
  await using stage = await Stage.create("bridge")
  const keys = { ipMasq: true }
  await (await stage.attach({ keys })).attachment.add()
  const { attachment } = await stage.attach({ keys })
  const prevResult = await attachment.add()
  const { output, text } = await runTraced(attachment, "DEL", ["trace=sendto"], { prevResult })
  expect(output).toMatchObject({ exitCode: 0 })
  const asked = [...text.matchAll(/NFT_MSG_(\w+).*?nfgen_family=AF_(\w+)/g)]
  const questions = asked.map(([, type, family]) => `${type} ${family}`)
  expect(questions).toContain("GETTABLE UNSPEC")
  expect(questions).toContain("GETSETELEM INET")
  expect(questions.filter((one) => /INET6|BRIDGE/.test(one))).toEqual([])
})

/**
 * Tables of other programs. If a table is dormant, the rules of firewall look incomplete, so firewall also asks whether
 * the table still exists.
 */
const tables = [
  { plugin: "bridge", table: "ip cni_masquerade", questions: 0 },
  { plugin: "portmap", table: "ip cni_hostports", questions: 0 },
  { plugin: "firewall", table: "inet cni_firewall", questions: 3 },
]

testPlugins(tables, "%s: ADD wakes its table where it is dormant, and seldom asks whether it is", async (one) => {
  const { plugin, table, questions } = one
  await using stage = await Stage.create(plugin)
  const keys = { ...keysOf[plugin] }
  await (await stage.attach({ keys })).attachment.add()
  const isDormant = async () => {
    return (await stage.host.exec("nft", ["list", "table", ...table.split(" ")])).stdout.includes("flags dormant")
  }
  await stage.host.exec("nft", [`add table ${table} { flags dormant; }`])
  expect(await isDormant()).toBe(true)
  const { attachment } = await stage.attach({ keys })
  const { output, text } = await runTraced(attachment, "ADD", ["trace=sendto"])
  expect(output).toMatchObject({ exitCode: 0 })
  expect(await isDormant()).toBe(false)
  expect(text.split("NFT_MSG_GETTABLE").length - 1).toBe(questions)
})
