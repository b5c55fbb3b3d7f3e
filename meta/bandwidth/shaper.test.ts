import { expect, test } from "bun:test"
import { NetlinkSocket } from "../../pkg/netlink/mod.ts"
import { acknowledge, linkNumber, ScriptedKernel } from "../../pkg/netlink/testing.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { Undo } from "../../pkg/undo/mod.ts"
import { addShaper } from "./shaper.ts"

const subnets = { areShaped: true, list: [{ ip: Uint8Array.of(10, 1, 0, 0), prefix: 16 }] }
const [ENOENT, EPERM] = [2, 1]

test.each([
  [undefined, ENOENT, 'the kernel has no tbf: load the module "sch_tbf"'],
  [subnets, ENOENT, 'the kernel has no htb: load the module "sch_htb"'],
  [undefined, EPERM, "EPERM"],
])("a limit that the kernel refuses is told with its kind, and the reason", (subnets, errno, details) => {
  const route = new NetlinkSocket(0, 0, new ScriptedKernel((request) => [acknowledge(request, errno)]))
  const shape = { limit: { rate: 1000, burst: 1000 }, subnets, peer: "src" } as const
  expect(refusalOf(() => addShaper(route, linkNumber(5, "eth0"), shape, new Undo(() => {})))).toMatchObject({
    code: 999,
    message: 'Cannot limit "eth0"',
    details: expect.stringContaining(details),
  })
})
