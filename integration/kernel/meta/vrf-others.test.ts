/**
 * What vrf refuses, names and takes back, called in this process, on a kernel that is shown as one with VRFs
 * (`vrf-kernel.fixture.ts`).
 */
import { describe, expect, test } from "bun:test"
import { vrf } from "../../../meta/vrf/main.ts"
import { callPlugin } from "../in-process.ts"
import { call, configOf, done, host, inside, pod, refusals, shown, tables, useVrfs } from "./vrfs.fixture.ts"

useVrfs()

describe("ADD changes nothing when", () => {
  const refused = 'Cannot put "eth1" into VRF "red": '
  test.each<[string, string, object, object]>([
    [
      "there is no prevResult",
      "true",
      { prevResult: undefined },
      {
        code: 7,
        msg: 'Required prevResult missing: there is no "eth1" to put into a VRF',
        details: "put vrf after the plugin that creates the interface",
      },
    ],
    [
      "the name is another link's",
      "ip link add red type bridge",
      {},
      { msg: 'Cannot use "red" as a VRF: Netlink red is not a VRF' },
    ],
    [
      "the interface has another master",
      "ip link add lan type bridge; ip link set eth1 master lan",
      {},
      { code: 999, msg: `${refused}interface eth1 has already a master set: lan` },
    ],
    [
      "sbr routes by its address",
      "ip rule add from 10.1.0.2 lookup 100 proto 67",
      {},
      {
        code: 999,
        msg: `${refused}sbr routes by its addresses`,
        details: "remove sbr: the VRF's table replaces it",
      },
    ],
  ])("%s", async (_, script, keys, error) => {
    await inside(script)
    const there = await shown()
    expect(call("ADD", 1, keys).json).toMatchObject(error)
    expect(await shown()).toEqual(there)
    done("DEL", 1, { ...keys, prevResult: undefined })
    expect(await shown()).toEqual(there)
    await inside("ip rule del from 10.1.0.2 lookup 100 2>/dev/null; true")
  })

  test("there is no such interface", async () => {
    await inside("ip link del far1")
    expect(call("ADD", 1).json).toMatchObject({
      code: 999,
      msg: `${refused}there is no such interface in "${pod.path}"`,
    })
    await inside("ip link add far1 type veth")
  })

  test("rules of others lead by its address, or of sbr by another's, but these stop no ADD", async () => {
    await inside("ip rule add from 10.1.0.2 lookup 100; ip rule add from 10.2.0.2 lookup 100 proto 67")
    done("ADD", 1)
    await inside("ip rule del from 10.1.0.2 lookup 100; ip rule del from 10.2.0.2 lookup 100")
  })
})

test("CHECK names what is not as ADD has left it", async () => {
  const check = (keys: object = {}) => call("CHECK", 1, keys).json?.msg
  expect(check()).toBe('Check of VRFs failed: expected "red", found none of that name')
  done("ADD", 1)
  expect(check({ table: 9 })).toBe('Check of VRF "red" failed: expected table 9, found table 1')
  await inside("ip route del 10.71.0.0/16 table 1")
  expect(check()).toStartWith("Check of routes failed: expected 10.71.0.0/16")
  await inside("ip route add 10.71.0.0/16 dev eth1")
  expect(check()).toStartWith("Check of routes failed: expected 10.71.0.0/16")
  await inside("ip route del 10.71.0.0/16; ip route add 10.71.0.0/16 dev eth1 table 1; ip link set red down")
  expect(check()).toBe('Check of VRF "red" failed: expected up, found down')
  await inside("ip link set red up; ip link set eth1 nomaster")
  expect(check()).toBe('Check of master of "eth1" failed: expected "red", found none')
  await inside("ip link add lan type bridge; ip link set eth1 master lan")
  expect(check()).toBe('Check of master of "eth1" failed: expected "red", found lan')
  await inside("ip link set eth1 master red; ip link set red down; ip link set lan down")
  done("ADD", 1)
  done("CHECK", 1)
})

const [DELLINK, NEWROUTE, GETROUTE, EPERM] = [17, 24, 26, 1]

describe("DEL", () => {
  test("without the interface takes the VRF that its ADD has made, found by the owner's name, if it is empty", async () => {
    for (const keys of [{}, { vrfname: 7 }]) {
      done("ADD", 1)
      done("ADD", 2)
      await inside("ip link del far1")
      done("DEL", 1, keys)
      expect(await shown()).toContain("red up lab/c1/eth1")
      await inside("ip link set eth2 nomaster")
      done("DEL", 1, keys)
      expect((await shown()).filter((line) => line.startsWith("red"))).toEqual([])
      await inside(
        "ip link add eth1 type veth peer name far1; ip address add 10.1.0.2/16 dev eth1; ip link set eth1 up; ip link set far1 up",
      )
    }
  })

  test("says what routes the interface has lost, and succeeds", async () => {
    done("ADD", 1)
    refusals.set(NEWROUTE, EPERM)
    const { exitCode, log } = call("DEL", 1)
    refusals.clear()
    expect(exitCode).toBe(0)
    expect(log.join("\n")).toContain('vrf: "eth1" has lost routes: ')
    expect(await shown()).not.toContain("eth1 in red")
  })

  test("without a namespace succeeds", () => {
    done("DEL", 1, {}, { pod: undefined })
  })
})

describe("what the kernel refuses", () => {
  test("is told by DEL, after all else was done", async () => {
    done("ADD", 1)
    refusals.set(DELLINK, EPERM)
    const { exitCode, json } = call("DEL", 1)
    refusals.clear()
    expect(exitCode).toBe(1)
    expect(`${json.msg} ${json.details}`).toContain('delete VRF "red"')
    expect(`${json.msg} ${json.details}`).toContain("EPERM")
    expect(await shown()).not.toContain("eth1 in red")
    done("DEL", 1)
  })

  test("is no answer to where routes are", () => {
    refusals.set(GETROUTE, EPERM)
    const answer = call("ADD", 1)
    refusals.clear()
    expect(answer).toMatchObject({ exitCode: 1, json: { code: 999 } })
    expect(`${answer.json.msg} ${answer.json.details}`).toContain("EPERM")
  })
})

test("GC takes the empty VRFs of what is not valid in its network, in containers that live", async () => {
  const collect = (...names: string[]) => {
    const valid = names.map((ifname) => ({ containerID: "c1", ifname }))
    const config = { ...configOf(1), prevResult: undefined, "cni.dev/valid-attachments": valid }
    expect(callPlugin(host, vrf, { verb: "GC", config })).toMatchObject({ exitCode: 0, log: [] })
  }
  done("ADD", 1)
  await inside("ip link add lan type bridge; ip link set lan alias lab/c9/eth1")
  const there = await shown()
  collect()
  expect(await shown()).toEqual(there)
  await inside("ip link set eth1 nomaster")
  collect("eth1")
  expect(await shown()).toContain("red up lab/c1/eth1")
  collect("eth2")
  expect((await shown()).filter((line) => /^(red|lan)/.test(line))).toEqual(["lan down lab/c9/eth1"])
})

test("a container whose links cannot be listed does not keep GC from the others'", async () => {
  const pods = [pod, await host.addContainer()]
  for (const one of pods) {
    await host.tryExec("ip", ["netns", "set", one.name, "auto"]) // it may have one already
    await one.exec("sh", ["-c", "ip link add lan type bridge; ip link set lan alias lab/c9/eth1"])
  }
  tables.set("lan", 7)
  const left = async () =>
    (await Promise.all(pods.map((one) => one.exec("ip", ["-br", "link"])))).map(({ stdout }) => /^lan /m.test(stdout))
  const config = { ...configOf(1), prevResult: undefined, "cni.dev/valid-attachments": [] }
  const [GETLINK, ENOMEM] = [18, 12]
  refusals.set(GETLINK, [ENOMEM])
  const { exitCode, json } = callPlugin(host, vrf, { verb: "GC", config })
  expect({ exitCode, left: (await left()).sort() }).toEqual({ exitCode: 1, left: [false, true] })
  expect(`${json.msg} ${json.details}`).toMatch(/delete VRFs in nsid \d+.*ENOMEM/)
  expect(callPlugin(host, vrf, { verb: "GC", config }).exitCode).toBe(0)
  expect(await left()).toEqual([false, false])
})

test("STATUS is well where VRFs can be made", () => {
  expect(callPlugin(host, vrf, { verb: "STATUS", config: { ...configOf(1), prevResult: undefined } }).exitCode).toBe(0)
})
