/**
 * What CHECK of the bandwidth plugin names, and what it leaves to others, called in this process, judged with `tc`.
 */
import { describe, expect } from "bun:test"
import { testWith } from "../../lab/mod.ts"
import { refuseAnswer } from "../in-process.ts"
import {
  add,
  both,
  call,
  connect,
  done,
  host,
  ifb,
  needs,
  pod,
  prevResultOf,
  shown,
  subnets,
  useHost,
} from "./limits.ts"

useHost()

describe("CHECK", () => {
  const tc = (words: string) => host.exec("tc", words.split(" "))
  const wanted = 'Check of the root qdisc of "veth1" failed: expected'
  const filters = 'Check of the filters of "veth1" failed: expected'
  const redirect = `${filters} a redirect of everything to "${ifb}", found`
  const limit = "rate 8000000bit burst 32768b"
  const plain: [string, string][] = [
    ["qdisc del dev veth1 root", `${wanted} tbf 1: ${limit} limit 57768b, found none`],
    ["qdisc replace dev veth1 root handle 5: bfifo", `${wanted} tbf 1: ${limit} limit 57768b, found bfifo 5:`],
    [
      "qdisc replace dev veth1 root handle 1: tbf rate 9mbit burst 32kb limit 57768",
      `${wanted} tbf 1: ${limit} limit 57768b, found tbf 1: rate 9000000bit burst 32768b limit 57768b`,
    ],
    [
      `qdisc del dev ${ifb} root`,
      `Check of the root qdisc of "${ifb}" failed: expected tbf 1: rate 16000000bit burst 40000b limit 90000b, found none`,
    ],
    ["qdisc del dev veth1 ingress", `${redirect} neither ingress nor clsact`],
    ["filter del dev veth1 ingress", `${redirect} ingress ffff: with 0 other filters`],
  ]
  testWith(needs, "names what is missing or another limit, and the next ADD makes it", async () => {
    await connect()
    const result = add(both)
    const whole = await shown()
    for (const [damage, msg] of plain) {
      await tc(damage)
      expect(call("CHECK", { ...both, prevResult: result }).json).toMatchObject({ code: 999, msg })
      if (damage.includes("handle 5:")) await tc("qdisc del dev veth1 root") // another's is not taken away
      add(both)
      expect(await shown()).toEqual(whole)
    }
    await host.exec("ip", ["link", "set", ifb, "down"])
    expect(call("CHECK", { ...both, prevResult: result }).json.msg).toContain("expected up, found down")
    await host.exec("ip", ["link", "del", ifb])
    expect(call("CHECK", { ...both, prevResult: result }).json.msg).toBe(
      `Check of the ifb of "veth1" failed: expected "${ifb}", found none`,
    )
  })

  const u32 = "protocol ip prio 16 u32 match ip src 10.8.0.0/16 flowid 1:30"
  const classes: [string, string][] = [
    ["filter del dev veth1 parent 1: prio 15", `${filters} protocol ipv6 match fd000001/ffffffff at 8`],
    [`filter add dev veth1 parent 1: ${u32}`, `${filters} 2, found 3`],
    ["class change dev veth1 parent 1: classid 1:30 htb rate 9mbit", 'Check of class 1:30 of "veth1" failed: expected'],
    [
      "class change dev veth1 parent 1: classid 1:1 htb rate 9mbit",
      "expected rate 800000000000bit burst 100000000b, found",
    ],
    ["qdisc del dev veth1 root", `${wanted} htb 1: with the default class 1:1, found none`],
  ]
  testWith(needs, "of limits for some peers looks at classes and filters, too", async () => {
    await connect()
    const keys = { ...both, ...subnets }
    add(keys)
    const whole = (await shown()).sort()
    for (const [damage, msg] of classes) {
      await tc(damage)
      expect(call("CHECK", keys).json).toMatchObject({ code: 999, msg: expect.stringContaining(msg) })
      add(keys)
      expect((await shown()).sort()).toEqual(whole)
    }
    await tc("filter del dev veth1 parent 1: prio 16")
    await tc("filter add dev veth1 parent 1: protocol ip prio 16 u32 match ip src 10.9.0.0/16 flowid 1:1")
    expect(call("CHECK", keys).json.msg).toContain("match 0a090000/ffff0000 at 12 flowid 1:30, found ")
    add(keys)
    const unshaped = { ...both, unshapedSubnets: subnets.shapedSubnets }
    expect(call("CHECK", unshaped).json.msg).toBe(`${wanted} htb 1: with the default class 1:30, found htb 1:`)
    expect(call("CHECK", both).json.msg).toContain("found htb 1:")
    expect(call("CHECK", { ...keys, shapedSubnets: ["10.9.0.0/16"] }).json.msg).toBe(`${filters} 1, found 2`)
  })

  testWith(needs, "and ADD need an interface, prevResult, and for the host's end one", async () => {
    for (const verb of ["ADD", "CHECK"] as const) {
      expect(call(verb, { ...both, prevResult: undefined }).json).toMatchObject({
        code: 7,
        msg: 'Cannot limit "eth0": prevResult is missing',
        details:
          "bandwidth must be called as chained plugin: it limits the interface of an earlier plugin of the chain",
      })
      expect(call(verb, both).json).toMatchObject({
        code: 999,
        msg: `Cannot limit "eth0" in "${pod.path}": there is no such interface`,
      })
    }
    await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
    expect(call("ADD", { ...both, shapeIn: "host" }).json).toMatchObject({
      code: 7,
      msg: 'Cannot limit "eth0" on the host: it has no peer there',
      details: 'it is of kind "bridge": leave "shapeIn" out, or set it to "container"',
    })
    add(both)
    expect((await shown(pod)).filter((line) => line.includes("tbf"))).toHaveLength(2)
    expect(await shown()).toEqual([])
  })
})

describe("what is not ours", () => {
  testWith(needs, "stays: another root qdisc is in the way of ADD, and told with the way out", async () => {
    await connect()
    await host.exec("tc", ["qdisc", "add", "dev", "veth1", "root", "handle", "7:", "bfifo", "limit", "9999"])
    const before = await shown()
    expect(call("ADD", both).json).toMatchObject({
      code: 999,
      msg: 'Cannot limit "veth1"',
      details: 'there is a qdisc of another program: bfifo 7:; "tc qdisc del dev veth1 root" removes it',
    })
    done("DEL", both)
    expect(await shown()).toEqual(before)
    await host.exec("tc", "qdisc del dev veth1 root".split(" "))
    await host.exec("tc", "qdisc add dev veth1 root handle 7: tbf rate 1mbit burst 10kb limit 10kb".split(" "))
    const changed = await shown()
    done("DEL", both)
    expect(await shown()).toEqual(changed)
  })

  const drop = "u32 match ip protocol 1 0xff flowid 1:1"
  testWith(needs, "stays: a hook of each kind is used after its filters", async () => {
    for (const [kind, parent] of [
      ["clsact", "ffff:fff2"],
      ["ingress", "ffff:"],
    ] as const) {
      await connect()
      await host.exec("tc", ["qdisc", "add", "dev", "veth1", kind])
      for (const priority of [3, 1])
        await host.exec("tc", `filter add dev veth1 parent ${parent} protocol ip prio ${priority} ${drop}`.split(" "))
      const before = await shown()
      add(both)
      const place = kind === "clsact" ? "" : "parent ffff: "
      const ours = (await shown()).filter((line) => line.includes("pref 4"))
      expect(ours).toEqual([`veth1 filter ${place}protocol all pref 4 u32 flowid 1:1`])
      expect(call("ADD", both, { write: refuseAnswer }).exitCode).toBe(1)
      expect(await shown()).toEqual(before)
      add(both)
      done("DEL", both)
      expect(await shown()).toEqual(before)
      await host.exec("ip", ["link", "del", "veth1"])
    }
  })

  testWith(needs, "is used at the last priority, and a clsact without filters stays", async () => {
    await connect()
    await host.exec("tc", "qdisc add dev veth1 clsact".split(" "))
    const empty = await shown()
    add(both)
    done("DEL", both)
    expect(await shown()).toEqual(empty)
    await host.exec("tc", `filter add dev veth1 ingress protocol all prio 65535 ${drop}`.split(" "))
    const before = await shown()
    add(both)
    expect((await shown()).filter((line) => line.includes("pref 65535"))).toHaveLength(2)
    done("DEL", both)
    expect(await shown()).toEqual(before)
  })

  testWith(
    needs,
    "but upstream's, without an owner's name, goes: by the filter, by the result, or by the name alone",
    async () => {
      const make = async (isLed: boolean) => {
        await connect("veth1", "eth0", "")
        await host.exec("ip", ["link", "add", ifb, "up", "type", "ifb"])
        await host.exec("tc", "qdisc add dev veth1 root handle 1: tbf rate 1mbit burst 10kb limit 10kb".split(" "))
        if (!isLed) return
        await host.exec("tc", "qdisc add dev veth1 ingress".split(" "))
        await host.exec(
          "tc",
          `filter add dev veth1 ingress protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev ${ifb}`.split(
            " ",
          ),
        )
      }
      const recorded = {
        prevResult: { ...prevResultOf("veth1", "eth0"), interfaces: [{ name: "veth1" }, { name: ifb }] },
      }
      for (const [isLed, keys] of [
        [true, {}],
        [true, { prevResult: undefined }],
        [false, recorded],
      ] as const) {
        await make(isLed)
        done("DEL", keys)
        expect(await shown()).toEqual([])
        await host.exec("ip", ["link", "del", "veth1"])
      }
      // Of another interface of the container, by what is known.
      for (const keys of [{}, { prevResult: undefined }]) {
        await make(false)
        done("DEL", keys)
        expect((await shown()).filter((line) => line.startsWith(`${ifb} mtu`))).toHaveLength(1)
        await host.exec("sh", ["-c", `ip link del ${ifb}; ip link del veth1`])
      }
      await make(true)
      await host.exec("ip", ["link", "del", "veth1"])
      done("DEL", { prevResult: undefined }, { pod: undefined })
      expect(await shown()).toEqual([])
    },
  )

  testWith(needs, "but a filter that leads nowhere, which upstream's DEL leaves, goes with the hook", async () => {
    await connect()
    add(both)
    await host.exec("ip", ["link", "del", ifb])
    done("DEL", both)
    expect(await shown()).toEqual([])
  })
})
