import { expect, test } from "bun:test"
import type { Result } from "../../pkg/types/mod.ts"
import { tunedResult } from "./main.ts"

const sandbox = "/run/netns/x"

function resultOf(interfaces: Result["interfaces"]): Result {
  return { interfaces, ips: [{ address: "10.1.0.2/16", interface: 1 }], routes: [{ dst: "0.0.0.0/0" }], dns: {} }
}

const places = { ifName: "eth0", hostMtus: new Map([["veth1", 1400]]) }

test("the container's interface gets the new MAC and MTU, the host's interfaces the MTU that they have, and nothing else changes", () => {
  const before = resultOf([
    { name: "br0", mtu: 1500 },
    { name: "veth1", mac: "aa", mtu: 1500 },
    { name: "eth0", sandbox },
  ])
  expect(tunedResult(before, places, { mac: "bb", mtu: 1400 })).toEqual({
    ...before,
    interfaces: [
      { name: "br0", mtu: 1500 },
      { name: "veth1", mac: "aa", mtu: 1400 },
      { name: "eth0", mac: "bb", mtu: 1400, sandbox },
    ],
  })
  const none = { ifName: "eth0", hostMtus: new Map() }
  expect(tunedResult(before, none, { txQLen: 5 })).toEqual(before)
  const both = {
    ifName: "eth0",
    hostMtus: new Map([
      ["veth1", 9000],
      ["br0", 9000],
    ]),
  }
  expect(tunedResult(before, both, { mtu: 9000 }).interfaces.map(({ mtu }) => mtu)).toEqual([9000, 9000, 9000])
})

test("an interface of the host that has the container's name is left alone", () => {
  const before = resultOf([
    { name: "eth0", mac: "aa" },
    { name: "eth0", mac: "cc", sandbox },
  ])
  const { interfaces } = tunedResult(before, { ...places, hostMtus: new Map() }, { mac: "bb", mtu: 1400 })
  expect(interfaces).toEqual([
    { name: "eth0", mac: "aa" },
    { name: "eth0", mac: "bb", mtu: 1400, sandbox },
  ])
})

test("where both ends have one name, each gets its own", () => {
  const before = resultOf([
    { name: "eth0", mac: "aa" },
    { name: "eth0", mac: "cc", sandbox },
  ])
  const { interfaces } = tunedResult(
    before,
    { ...places, hostMtus: new Map([["eth0", 1400]]) },
    { mac: "bb", mtu: 1400 },
  )
  expect(interfaces).toEqual([
    { name: "eth0", mac: "aa", mtu: 1400 },
    { name: "eth0", mac: "bb", mtu: 1400, sandbox },
  ])
})

test("where no interface says that it is in a sandbox, the name decides", () => {
  const before = resultOf([{ name: "eth0", mac: "aa" }, { name: "veth1" }])
  const { interfaces } = tunedResult(before, places, { mac: "bb", mtu: 1400 })
  expect(interfaces).toEqual([
    { name: "eth0", mac: "bb", mtu: 1400 },
    { name: "veth1", mtu: 1400 },
  ])
})
