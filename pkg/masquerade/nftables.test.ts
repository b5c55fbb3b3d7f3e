import { describe, expect, test } from "bun:test"
import { answerGeneration, refusing } from "../nftables/testing.ts"
import { AF_INET, AF_INET6, CniError } from "../types/mod.ts"
import { addMasquerade, canMasquerade, checkMasquerade, deleteMasquerade, gcMasquerade } from "./nftables.ts"
import { deleteUpstreamMasquerade, upstreamPrefix } from "./upstream.ts"

const owner = { network: "net", containerId: "c1", ifName: "eth0" }
const addresses = [{ ip: Uint8Array.of(10, 1, 0, 2), prefix: 16 }]

// nfnetlink answers EINVAL to a message, and EOPNOTSUPP to a batch, for a subsystem that it does not have.
describe.each(["EINVAL", "EOPNOTSUPP"])("a kernel without nf_tables, which says %s,", (errno) => {
  test("has nothing to remove", () => {
    const socket = refusing(errno)
    deleteMasquerade(socket, owner)
    gcMasquerade(socket, "net", [])
    deleteUpstreamMasquerade(socket, owner)
  })

  test("is known to be one", () => {
    expect(canMasquerade(refusing(errno), AF_INET)).toBe(false)
  })

  test("cannot masquerade, and is told what it lacks", () => {
    expect(() => addMasquerade(refusing(errno), owner, addresses)).toThrow(
      "Cannot masquerade 10.1.0.2/16: the kernel needs nf_tables with NAT",
    )
  })
})

test("a refusal of the kernel's is kept as the cause", () => {
  const socket = refusing("EPERM", { get: answerGeneration })
  for (const action of [
    () => addMasquerade(socket, owner, addresses),
    () => deleteMasquerade(socket, owner),
    () => gcMasquerade(socket, "net", []),
    () => deleteUpstreamMasquerade(socket, owner),
  ]) {
    expect(action).toThrow(CniError)
    expect(action).toThrow(expect.objectContaining({ details: expect.stringContaining("EPERM") }))
  }
})

test("a kernel can masquerade when it agrees to everything but the last, a table that is there already", () => {
  expect(canMasquerade(refusing("EEXIST", { dump: () => [] }), AF_INET6)).toBe(true)
  expect(() => canMasquerade(refusing("EPERM", { dump: () => [] }), AF_INET6)).toThrow("EPERM")
})

test("no addresses are nothing to do", () => {
  addMasquerade(refusing("EPERM"), owner, [])
  checkMasquerade(refusing("EPERM"), owner, [])
})

test("nothing there is success for DEL and GC, and nothing is sent", () => {
  const socket = refusing("ENOENT", { get: answerGeneration })
  deleteMasquerade(socket, owner)
  gcMasquerade(socket, "net", [])
  deleteUpstreamMasquerade(socket, owner)
})

test("CHECK without the rule says which one it misses", () => {
  expect(() => checkMasquerade(refusing("ENOENT", { get: answerGeneration }), owner, addresses)).toThrow(
    "Cannot find the masquerade of net/c1/eth0: expected ip cni_masquerade postrouting ip saddr . ip daddr & 255.255.0.0" +
      ' @networks_16 return comment "to its own network, /16" and ip cni_masquerade postrouting ip saddr @containers',
  )
})

// Comments that the Go suite, v1.6, has written.
test.each([
  ["unit-test", "eth0", "one", "6fd94d501e58f0aa-287fc69eff0574a2"],
  ["alternate", "net1", "three", "82783ef24bdc7036-acb19d111858e348"],
  ["mynet", "eth0", "ctr-1", "d23676b4f2d9fe04-1c8f6ae798001240"],
])("the Go suite's rules for %s, %s of %s are known by their prefix", (network, ifName, containerId, prefix) => {
  expect(upstreamPrefix({ network, ifName, containerId })).toBe(prefix)
})
