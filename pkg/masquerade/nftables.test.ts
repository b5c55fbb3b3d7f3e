import { expect, test } from "bun:test"
import { answerGeneration, refusing } from "../nftables/testing.ts"
import { AF_INET, AF_INET6 } from "../types/mod.ts"
import {
  addMasquerade,
  canMasquerade,
  checkMasquerade,
  deleteMasquerade,
  deleteUpstreamMasquerade,
  gcMasquerade,
} from "./testing.ts"
import { upstreamPrefix } from "./upstream.ts"

const owner = { network: "net", containerId: "c1", ifName: "eth0" }
const addresses = [{ ip: Uint8Array.of(10, 1, 0, 2), prefix: 16 }]

// nfnetlink answers with EINVAL to a message, and with EOPNOTSUPP to a batch, if the kernel lacks the subsystem or a
// feature.
test.each(["EINVAL", "EOPNOTSUPP"])("a kernel that says %s cannot masquerade", (errno) => {
  expect(canMasquerade(refusing(errno), AF_INET)).toBe(false)
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

// The comments that the Go plugins, v1.6, have written begin with these digits.
test.each([
  ["unit-test", "eth0", "one", "6fd94d501e58f0aa-287fc69eff0574a2"],
  ["alternate", "net1", "three", "82783ef24bdc7036-acb19d111858e348"],
  ["mynet", "eth0", "ctr-1", "d23676b4f2d9fe04-1c8f6ae798001240"],
])("the Go suite's rules for %s, %s of %s are known by their prefix", (network, ifName, containerId, prefix) => {
  expect(upstreamPrefix({ network, ifName, containerId })).toBe(prefix)
})
