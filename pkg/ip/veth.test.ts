import { expect, test } from "bun:test"
import { NETLINK_ROUTE, NetlinkSocket } from "../netlink/mod.ts"
import { acknowledge, ScriptedKernel } from "../netlink/testing.ts"
import { Netns } from "../netns/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { createVethPair } from "./veth.ts"

const EPERM = 1
const EEXIST = 17
const ENODEV = 19
const RTM_NEWLINK = 16

test.each([
  { errno: EEXIST, code: 11, requests: 10, what: "names that are always taken are code 11 in the end" },
  { errno: EPERM, code: 999, requests: 1, what: "another refusal is not tried again, and is code 999" },
])("#43 a veth pair: $what", ({ errno, code, requests }) => {
  const kernel = new ScriptedKernel((request) => [acknowledge(request, request.type === RTM_NEWLINK ? errno : ENODEV)])
  const host = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
  using sandbox = Netns.open("/proc/self/ns/net")
  const refused = refusalOf(() => createVethPair(host, { sandbox, ifName: "eth0", alias: "a/b/eth0" }))
  expect(refused).toMatchObject({ code, message: 'Cannot create interface "eth0" in "/proc/self/ns/net"' })
  expect(refused.details).toContain(errno === EEXIST ? "EEXIST" : "EPERM")
  // Each datagram has two requests: creating the pair, and setting the alias of the host's end.
  expect(kernel.requests.filter(({ type }) => type === RTM_NEWLINK)).toHaveLength(2 * requests)
})
