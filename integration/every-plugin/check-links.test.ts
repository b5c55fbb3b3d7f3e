import { expect } from "bun:test"
import { fail, pluginsAs, Stage, testPlugins } from "../lab/mod.ts"

/** A MAC address and an MTU that differ from those in the result, as arguments of `ip link set`. */
const others = { mac: ["address", "0a:00:00:00:00:77"], mtu: ["mtu", "1300"] } as const

testPlugins(
  pluginsAs("interface"),
  "#26 %s: CHECK fails when any interface of the result has another MAC or MTU than that says, and passes when it is back",
  async (plugin) => {
    await using stage = await Stage.create(plugin)
    const { attachment, pod } = await stage.attach()
    const result = await attachment.add()
    for (const one of result.interfaces) {
      const where = one.sandbox ? pod : stage.host
      const [link] = await where.json<{ linkinfo: { info_kind: string } }[]>("ip", [
        "-d",
        "-j",
        "link",
        "show",
        one.name,
      ])
      for (const key of ["mac", "mtu"] as const) {
        if (link?.linkinfo.info_kind === "bridge" && key === "mtu") continue // the MTU of a bridge follows its ports
        const [setting, other] = others[key]
        await where.exec("ip", ["link", "set", one.name, setting, other])
        const { msg } = await fail(attachment.check(result))
        expect(msg).toContain(`"${one.name}" failed: expected ${one[key]}, found ${other}`)
        await where.exec("ip", ["link", "set", one.name, setting, String(one[key])])
        expect(await attachment.check(result)).toMatchObject({ exitCode: 0 })
      }
    }
  },
)
