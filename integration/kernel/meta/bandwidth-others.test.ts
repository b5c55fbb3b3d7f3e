/** Tests what bandwidth requires, and that it leaves other programs' objects alone, in this process and with `tc`. */
import { describe, expect } from "bun:test"
import { testWith } from "../../lab/mod.ts"
import { refuseAnswer } from "../in-process.ts"
import { add, both, call, connect, done, host, ifb, needs, pod, prevResultOf, shown, useHost } from "./limits.ts"

useHost()

describe("CHECK", () => {
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
        msg: `Cannot limit "eth0" in "${pod.path}": the interface does not exist`,
      })
    }
    await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
    expect(call("ADD", { ...both, shapeIn: "host" }).json).toMatchObject({
      code: 7,
      msg: 'Cannot limit "eth0" on the host: it has no peer there',
      details: 'it is of kind "bridge": remove "shapeIn", or set it to "container"',
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
      details: 'it has a qdisc of another program: bfifo 7:; "tc qdisc del dev veth1 root" removes it',
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
      // An interface of the container that DEL does not know about keeps its limit.
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
