import { describe, expect, test } from "bun:test"
import { type Ifindex, type Link, NETLINK_ROUTE, NetlinkSocket } from "../netlink/mod.ts"
import { acknowledge, ScriptedKernel } from "../netlink/testing.ts"
import type { Netns } from "../netns/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { configureLink, requireMtu } from "./container.ts"

const both = { ips: [{ address: "10.1.0.5/24" }, { address: "fd00::5/64" }, { address: "fd00::6/64" }] }

test("below 1280 bytes an interface has no IPv6, RFC 8200: the first such address is named", () => {
  expect(refusalOf(() => requireMtu(1279, both))).toMatchObject({
    code: 7,
    message: 'Cannot use "mtu" 1279 with fd00::5/64',
    details: "IPv6 needs an MTU of 1280 or more",
  })
})

test.each([
  [1280, both],
  [undefined, both],
  [68, { ips: [{ address: "10.1.0.5/24" }] }],
  [68, { ips: [] }],
])("an MTU of %p does for %j", (mtu, result) => {
  expect(() => requireMtu(mtu, result)).not.toThrow()
})

describe("an interface that nothing is to be waited for", () => {
  const [RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE] = [16, 20, 24]
  const [NLM_F_REQUEST, NLM_F_ACK] = [1, 4]
  const link: Link = {
    index: 7 as Ifindex,
    name: "no-such0",
    flags: 0,
    type: 1,
    mac: "",
    mtu: 1500,
    kind: "",
    attributes: {},
  }
  const result = {
    interfaces: [],
    ips: [{ address: "10.1.0.5/24", gateway: "10.1.0.1" }, { address: "fd00::5/64" }],
    routes: [{ dst: "10.9.0.0/16" }, { dst: "::/0" }],
    dns: {},
  }

  /** Configures a link on a kernel that refuses requests of the types `refused`. Returns the kernel and the error. */
  function configure(...refused: number[]) {
    const kernel = new ScriptedKernel((request) => {
      const errno = refused.includes(request.type) ? 95 : 0 // EOPNOTSUPP
      return errno !== 0 || request.flags & NLM_F_ACK ? [acknowledge(request, errno)] : []
    })
    const inside = new NetlinkSocket(NETLINK_ROUTE, 0, kernel)
    const sandbox = { run: () => {} } as unknown as Netns // these tests do not need the sysctls of the namespace
    const attempt = () => configureLink({ sandbox, inside, link }, result)
    return { kernel, error: refused.length > 0 ? refusalOf(attempt) : attempt() }
  }

  test("gets addresses, is brought up and gets its routes in that order by one datagram", () => {
    const { kernel } = configure()
    expect(kernel.datagrams).toHaveLength(1)
    // The addresses are added with CREATE and EXCL, the routes are appended, and the last request asks for an
    // acknowledgement.
    expect(kernel.requests.map(({ type, flags, payload }) => [type, flags, payload[0]])).toEqual([
      [RTM_NEWADDR, 0x600 | NLM_F_REQUEST, 2],
      [RTM_NEWADDR, 0x600 | NLM_F_REQUEST, 10],
      [RTM_NEWLINK, NLM_F_REQUEST, 0],
      [RTM_NEWROUTE, 0xc00 | NLM_F_REQUEST, 2],
      [RTM_NEWROUTE, 0xc00 | NLM_F_REQUEST | NLM_F_ACK, 10],
    ])
  })

  test.each([
    [[RTM_NEWLINK], 'Cannot bring up "no-such0"'],
    [[RTM_NEWROUTE], 'Cannot add the routes of "no-such0"'],
    [[RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE], 'Cannot add address 10.1.0.5/24 to "no-such0"'],
  ])("names the first of its requests that is refused, of types %p", (refused, message) => {
    const { error } = configure(...refused)
    expect(error).toMatchObject({ code: 999, message })
  })
})
