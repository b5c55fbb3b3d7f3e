import { expect, test } from "bun:test"
import type { IpsecPolicy } from "../../pkg/netlink/mod.ts"
import { AF_INET, parseCidr } from "../../pkg/types/mod.ts"
import { type HostIpsec, noIpsec } from "../node/mod.ts"
import { checkIpsec } from "./ipsec.ts"
import { attachmentOf, inputOf, linkOf, printed } from "./testing/inputs.ts"

const cidr = (text: string) => parseCidr(text) ?? expect.unreachable()
const policy = (
  direction: IpsecPolicy["direction"],
  src: string,
  dst: string,
  more: Partial<IpsecPolicy> = {},
): IpsecPolicy => ({
  family: AF_INET,
  direction,
  src: cidr(src),
  dst: cidr(dst),
  priority: 0,
  index: 1,
  isBlocking: true,
  templates: [],
  isNarrow: false,
  ...more,
})
const tunnel = { dst: Uint8Array.of(192, 0, 2, 9), protocol: 50, reqid: 7, isTunnel: true }
const wrapping = { isBlocking: false, templates: [{ ...tunnel, isOptional: false }] }
const found = (policies: IpsecPolicy[], more: Partial<HostIpsec> = {}) =>
  printed(
    checkIpsec(
      inputOf({
        attachments: [attachmentOf({ addresses: ["10.85.0.2/24"] })],
        links: [linkOf(2, "cni0", { kind: "bridge", addresses: ["10.85.0.1/24"] })],
        tables: { ipsec: { ...noIpsec, policies, ...more } },
      }),
    ),
  )
const ALL = "0.0.0.0/0"

test("a policy that blocks all packets of containers is reported, and the remedy is words", () => {
  expect(found([policy("fwd", "10.85.0.0/24", ALL)])).toEqual([
    `error ipsec-policy
the IPsec policy "src 10.85.0.0/24 dst 0.0.0.0/0 dir fwd" matches packets of containers, and blocks them
the kernel drops the packets after all rules of the packet filter: containers cannot reach the host, or other networks
exclude packets of containers from the policy, with the program that created it; "ip xfrm policy" shows it`,
  ])
})

test.each<[number, string, IpsecPolicy[], Partial<HostIpsec>]>([
  [1, "it blocks all", [policy("out", ALL, ALL)], {}],
  [1, "it blocks what they get", [policy("fwd", ALL, "10.85.0.2/32")], {}],
  [1, "it blocks what they send to their gateway", [policy("in", "10.85.0.0/24", "10.85.0.1/32")], {}],
  [0, "it blocks one network behind the host", [policy("fwd", "10.85.0.0/24", "10.9.0.0/16")], {}],
  [0, "it blocks other containers", [policy("fwd", "10.86.0.0/24", ALL)], {}],
  [0, "it blocks one port", [policy("fwd", "10.85.0.0/24", ALL, { isNarrow: true })], {}],
  [0, "another lets them pass before", [policy("fwd", ALL, ALL, { isBlocking: false }), policy("fwd", ALL, ALL)], {}],
  [1, "another lets them pass after it", [policy("fwd", ALL, ALL), policy("fwd", ALL, ALL, { isBlocking: false })], {}],
  [
    1,
    "another lets only answers pass",
    [policy("fwd", ALL, "10.85.0.0/24", { isBlocking: false }), policy("fwd", ALL, ALL)],
    {},
  ],
  [1, "the default blocks", [], { blockedByDefault: ["out"] }],
  [
    0,
    "the default blocks what a policy allows",
    [policy("out", ALL, ALL, { isBlocking: false })],
    { blockedByDefault: ["out"] },
  ],
  [1, "its tunnel has no state", [policy("out", "10.85.0.0/24", ALL, wrapping)], {}],
  [0, "its tunnel has a state", [policy("out", "10.85.0.0/24", ALL, wrapping)], { states: [tunnel] }],
  [
    1,
    "its tunnel's state leads elsewhere",
    [policy("out", "10.85.0.0/24", ALL, wrapping)],
    { states: [{ ...tunnel, dst: Uint8Array.of(192, 0, 2, 8) }] },
  ],
  [0, "a daemon makes the state of its tunnel", [policy("out", "10.85.0.0/24", ALL, wrapping)], { hasDaemon: true }],
  [0, "a tunnel brings all that containers get", [policy("fwd", ALL, "10.85.0.0/24", wrapping)], { states: [tunnel] }],
  [
    1,
    "what containers send has to come out of a tunnel",
    [policy("fwd", "10.85.0.0/24", ALL, wrapping)],
    { states: [tunnel] },
  ],
  [
    0,
    "IPsec is optional",
    [policy("out", ALL, ALL, { ...wrapping, templates: [{ ...tunnel, isOptional: true }] })],
    {},
  ],
])("%d findings where %s", (count, _, policies, more) => {
  expect(found(policies, more)).toHaveLength(count)
})
