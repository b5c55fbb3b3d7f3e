import { expect, test } from "bun:test"
import { IFF_UP, type RouteSocket } from "../../pkg/netlink/mod.ts"
import { LinksKernel } from "../../pkg/netlink/testing/links.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { bringUp, loopback, requireUp } from "./main.ts"

/** Encodes an address as in `RTM_NEWADDR`: struct ifaddrmsg for link 1, and IFA_ADDRESS; <linux/if_addr.h>. */
function address(prefix: number, ...ip: number[]): Uint8Array {
  const family = ip.length === 4 ? 2 : 10
  return Uint8Array.of(family, prefix, 0x80, 254, 1, 0, 0, 0, 4 + ip.length, 0, 1, 0, ...ip)
}

const ipv4 = address(8, 127, 0, 0, 1)
const ipv6 = (...last: number[]) => address(128, ...new Array(16 - last.length).fill(0), ...last)

function namespace(flags: number, ...addresses: Uint8Array[]) {
  const kernel = new LinksKernel([{ index: 1, name: "lo", flags }], { answers: { 22: addresses } })
  const log: string[] = []
  return { inside: kernel.socket as RouteSocket, kernel, log, undo: new Undo((line) => log.push(line)) }
}

const up = { verb: "set", index: 1, flags: IFF_UP, change: IFF_UP }
const down = { ...up, flags: 0 }

test("the plugin has its name, and no more to do in STATUS and GC", () => {
  expect(loopback.name).toBe("loopback")
  loopback.status({} as never, null)
  loopback.gc({} as never, null, [])
})

test("lo is brought up, has the first address of each family, and is down again when ADD fails", () => {
  const { inside, kernel, undo } = namespace(0, ipv4, address(8, 127, 0, 0, 2), ipv6(1))
  expect(bringUp(inside, undo)).toMatchObject({
    lo: { name: "lo" },
    ips: [
      { address: "127.0.0.1/8", interface: 0 },
      { address: "::1/128", interface: 0 },
    ],
  })
  expect(undo.changes).toEqual(['bring up "lo"'])
  undo[Symbol.dispose]()
  expect(kernel.links).toEqual([up, down] as never)
})

test("lo that was up stays up, and has the addresses that there are", () => {
  const { inside, kernel, undo } = namespace(IFF_UP, ipv6(1))
  expect(bringUp(inside, undo).ips).toEqual([{ address: "::1/128", interface: 0 }])
  undo[Symbol.dispose]()
  expect(kernel.links).toEqual([up] as never)
})

test.each([
  ["192.0.2.5/32", address(32, 192, 0, 2, 5)],
  ["::2/128", ipv6(2)],
  ["::/128", ipv6(0)],
  ["::101/128", ipv6(1, 1)],
  ["100::1/128", address(128, 1, ...new Array(14).fill(0), 1)],
])("an address of lo that is not a loopback address is refused: %s", (text, foreign) => {
  const { inside, undo } = namespace(0, ipv4, ipv6(1), foreign)
  expect(refusalOf(() => bringUp(inside, undo))).toMatchObject({
    code: 999,
    message: `Cannot use "lo": loopback interface found with non-loopback address ${text}`,
  })
  expect(undo.changes).toHaveLength(1)
})

test("CHECK is content with lo that is up", () => {
  requireUp(namespace(IFF_UP | 8).inside)
  for (const flags of [0, 8])
    expect(refusalOf(() => requireUp(namespace(flags).inside)).message).toBe(
      'Check of "lo": loopback interface is down failed: expected up, found down',
    )
})
