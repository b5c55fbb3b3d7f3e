import { afterAll, beforeAll, expect } from "bun:test"
import { Attachment, type CProgram, HostNamespace, interfacePlugin, type PluginResult, testWith } from "../lab/mod.ts"
import {
  arpReply,
  arpRequest,
  buildOpenTap,
  IFF_MULTI_QUEUE,
  IFF_NO_PI,
  IFF_TAP,
  TapUser,
  type User,
} from "./tap-user.ts"

let program: CProgram
beforeAll(async () => {
  program = await buildOpenTap()
})
afterAll(() => program[Symbol.asyncDispose]())

const { network } = interfacePlugin("tap")
const [EPERM, EBUSY, EINVAL] = [1, 16, 22]
const owner: User = { uid: 4711, gid: 4712 }

/** Resolves the container's address by ARP through a tap, and checks the reply. */
async function expectAnswer(tap: TapUser, { interfaces }: PluginResult): Promise<void> {
  const reply = arpReply("10.22.0.2", interfaces[0]?.mac ?? "")
  const isReply = (frame: string) => frame.startsWith(reply.slice(0, 28)) // destination MAC address, ARP
  expect(await tap.ask(arpRequest("10.22.0.2"), isReply)).toStartWith(reply)
}

testWith(["tap"], "a user without privileges who owns the tap attaches to it, and frames go both ways", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const result = await new Attachment(host, pod, network({ owner: owner.uid })).add()
  await using tap = await TapUser.attach(program, pod, { user: owner })
  await expectAnswer(tap, result)
})

testWith(["tap"], "who may attach: of owner and group who has what is set of them; without both everyone", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const other = { uid: 4713, gid: 4714 }
  const taps: [name: string, keys: object, may: readonly User[], mayNot: readonly User[]][] = [
    ["nobody", {}, [owner, other], []],
    ["user", { owner: 4711 }, [owner, { ...other, uid: 4711 }], [other, { ...other, gid: 4712 }]],
    ["group", { group: 4712 }, [owner, { ...other, gid: 4712 }], [other, { ...other, uid: 4711 }]],
    [
      "both",
      { owner: 4711, group: 4712 },
      [owner],
      [
        { ...owner, uid: 4713 },
        { ...owner, gid: 4714 },
      ],
    ],
    ["root", { owner: 0, group: 0 }, [], [owner]],
  ]
  for (const [name, keys, may, mayNot] of taps) {
    await new Attachment(host, pod, network({ ...keys, ipam: {} }), { ifName: name }).add()
    for (const user of [...may, undefined])
      await (await TapUser.attach(program, pod, { name, user }))[Symbol.asyncDispose]()
    for (const user of mayNot) {
      const refused = await TapUser.attach(program, pod, { name, user }).catch(String)
      expect({ name, user, refused }).toMatchObject({ refused: `Error: errno ${EPERM}` })
    }
  }
})

testWith(["tap"], "the tap stays when its user ends, and the next one attaches", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const result = await new Attachment(host, pod, network()).add()
  for (let time = 0; time < 2; time++) {
    await using tap = await TapUser.attach(program, pod)
    await expectAnswer(tap, result)
  }
})

testWith(["tap"], "one user at a time; with multiQueue several, who say so", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const add = (ifName: string, multiQueue: boolean) =>
    new Attachment(host, pod, network({ multiQueue, ipam: {} }), { ifName }).add()
  const attach = (name: string, flags: number) =>
    TapUser.attach(program, pod, { name, flags: IFF_TAP | IFF_NO_PI | flags })
  await add("one", false)
  await using _first = await attach("one", 0)
  expect(await attach("one", 0).catch(String)).toBe(`Error: errno ${EBUSY}`)
  await add("many", true)
  await using _second = await attach("many", IFF_MULTI_QUEUE)
  await using _third = await attach("many", IFF_MULTI_QUEUE)
  expect(await attach("many", 0).catch(String)).toBe(`Error: errno ${EINVAL}`)
})

testWith(["tap"], "taps on a bridge in the container are one network", async () => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  await pod.exec("ip", ["link", "add", "br0", "up", "type", "bridge"])
  for (const ifName of ["tap0", "tap1"]) {
    const attachment = new Attachment(host, pod, network({ bridge: "br0", ipam: {} }), { ifName })
    expect((await attachment.check(await attachment.add())).stdout).toBe("")
  }
  await using one = await TapUser.attach(program, pod, { name: "tap0" })
  await using other = await TapUser.attach(program, pod, { name: "tap1" })
  const question = arpRequest("10.22.0.99")
  expect(await one.ask(question, (frame) => frame === question, other)).toBe(question)
})
