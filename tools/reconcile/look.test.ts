import { expect, test } from "bun:test"
import { exceptFlags, lossesOf } from "./look.ts"

const web = { plugin: "bridge", network: "pods", containerId: "web", ifName: "eth0", what: "masquerade" }
const nothing = { restored: [], left: [], failed: [], unread: [] }

test("what was removed again and again is named, what goes with a table once for all containers", () => {
  const bridge = { plugin: "bridge", network: "pods", what: 'bridge "cni0"' }
  const ports = [1, 2, 3].map((at) => ({
    ...web,
    plugin: "portmap",
    containerId: `web-${at}`,
    what: "published ports",
  }))
  const over = ["table ip cni_masquerade", "table ip cni_hostports", "pods/bridge"]
  const losses = lossesOf({ ...nothing, left: [web, bridge, ...ports, ...ports] }, over)
  expect(losses.map(({ what }) => what)).toEqual([
    "table ip cni_masquerade",
    "table ip cni_hostports",
    "what bridge has of container web",
    "what portmap has of 3 containers",
    'bridge "cni0" of pods/bridge',
  ])
  expect(new Set(losses.map(({ reason }) => reason))).toEqual(new Set(["it was removed three times in a minute"]))
})

test("a table that was left and is there again is no loss", () => {
  expect(lossesOf(nothing, ["table ip cni_masquerade"])).toEqual([])
})

test("what failed, and what could not be read, is a loss with its message", () => {
  const failed = [{ ...web, error: { msg: "no room" } }]
  const unread = ["Cannot restore what a cache has: open: denied", 'Cannot restore "pods/web/eth0": its record is torn']
  expect(lossesOf({ ...nothing, failed, unread }, [])).toEqual([
    { what: "masquerade of pods/bridge/web/eth0", reason: "no room" },
    { what: "what a cache has", reason: "open: denied" },
    { what: '"pods/web/eth0"', reason: "its record is torn" },
  ])
})

test("a table is excepted by the plugins that use it", () => {
  expect(exceptFlags(["table ip cni_masquerade", "pods/portmap/web/eth0"])).toEqual(
    ["*/bridge", "*/ptp", "pods/portmap/web/eth0"].flatMap((what) => ["--except", what]),
  )
})
