import { expect, test } from "bun:test"
import { asBefore, DeviceHost } from "../host-device/device.ts"
import { extent, seed, tellFigure } from "../lab/mod.ts"
import { killAtCall, useKillAt } from "./killed.ts"

useKillAt()

/** The number of system calls between two kills. */
const step = extent(12, 1)

test.each(["ADD", "DEL"] as const)(
  "after a %s killed at any system call the next DEL gives the device back as it was",
  async (verb) => {
    await using net = await DeviceHost.create()
    const { pod, attachment } = await net.attach({ ipam: undefined })
    let tried = 0
    for (let [nth, goOn] = [1 + (seed % step), true]; goOn; nth += step) {
      if (verb === "DEL") await attachment.add()
      const { exitCode } = await attachment.run(verb, {}, { under: killAtCall("after", nth) })
      goOn = exitCode === 128 + 9
      await attachment.del()
      expect(await net.describe()).toEqual(asBefore)
      expect(await pod.json<object[]>("ip", ["-j", "link"])).toHaveLength(1)
      expect((await net.host.tryExec("ls", ["-A", "/run/cni/host-device"])).stdout).toBe("")
      tried += goOn ? 1 : 0
    }
    expect(tried * step).toBeGreaterThan(20)
    await tellFigure({ what: `${verb} of host-device killed, a device with settings of its own`, tried, held: tried })
  },
  extent(900_000, 7_200_000),
)
