import { expect, test } from "bun:test"
import { TestAttaching } from "../../pkg/attachment/testing/attaching.ts"
import { errnoNumber, type Fd, SyscallError } from "../../pkg/libc/mod.ts"
import { linkKinds } from "../../pkg/netlink/mod.ts"
import type { KernelLink } from "../../pkg/netlink/testing/links.ts"
import { hex } from "../../pkg/netlink/testing.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseTapConfig, type TapConfig } from "./config.ts"
import { ifreqOf, noTun, setUser } from "./device.ts"
import { checkTap, requireBridge, tap } from "./main.ts"
import { failureOf } from "./selinux.ts"

const network = { cniVersion: "1.1.0", name: "lab", type: "tap" }
const config = parseTapConfig(network, { verb: "ADD", args: "", raw: network })
const bridge: KernelLink = { index: 4, name: "br0", kind: "bridge" }

test("the plugin has its name", () => {
  expect(tap.name).toBe("tap")
})

// strace -v -e ioctl ip tuntap add name eth0 mode tap [multi_queue] [vnet_hdr]: the name, and the flags at byte 16;
// IFF_TAP 2, IFF_MULTI_QUEUE 0x100, IFF_NO_PI 0x1000, IFF_VNET_HDR 0x4000, and IFF_TUN_EXCL 0x8000, <linux/if_tun.h>
test.each([
  [{}, hex`0290`],
  [{ multiQueue: true }, hex`0291`],
  [{ vnetHdr: true }, hex`02d0`],
  [{ multiQueue: true, vnetHdr: true }, hex`02d1`],
])("a tap with %j is asked for by its name and flags", (keys, flags) => {
  const expected = new Uint8Array(40)
  expected.set(hex`65746830`)
  expected.set(flags, 16)
  expect(ifreqOf({ ...config, name: "eth0", ...keys })).toEqual(expected)
})

test("a number that cannot be the owner's is told from all else that ioctl(2) may fail for", () => {
  const refusal = (key: "owner" | "group") => {
    try {
      setUser(-1 as Fd, key, 4711)
    } catch (error) {
      return String(error)
    }
    return "nothing"
  }
  expect([refusal("owner"), refusal("group")]).toEqual([
    "SyscallError: ioctl TUNSETOWNER 4711: Bad file descriptor (EBADF)",
    "SyscallError: ioctl TUNSETGROUP 4711: Bad file descriptor (EBADF)",
  ])
})

test.each(["ENOENT", "ENODEV", "ENXIO", "EACCES", "EPERM"] as const)("a tun that cannot be opened for %s", (errno) => {
  const { code, message } = noTun(new SyscallError("open", errnoNumber(errno), "/dev/net/tun"))
  const why = errno.startsWith("EN") ? ': load the module "tun"' : ""
  expect([code, message]).toEqual([999, `Cannot open "/dev/net/tun"${why}`])
})

test.each([
  [undefined, { exitCode: 0, stderr: "a warning" }],
  ["it says so", { exitCode: 1, stderr: " it says so\n" }],
  ["exit status 1", { exitCode: 1, stderr: "\n" }],
  ["SIGKILL", { exitCode: undefined, signal: "SIGKILL", stderr: "" }],
])("a program has failed with %p", (failure, { stderr, ...ended }) => {
  expect(failureOf({ ...ended, stderr: new TextEncoder().encode(stderr) } as never)).toBe(failure)
})

test("the bridge is one of the container", () => {
  const find = (...links: KernelLink[]) => requireBridge(new TestAttaching(links).attaching, "br0")
  expect(find(bridge)).toMatchObject({ index: 4, name: "br0" })
  const message = 'Cannot find the bridge "br0" in "/run/netns/c1"'
  for (const [links, details] of [
    [[], "it must exist before the tap becomes its port"],
    [[{ ...bridge, kind: "dummy" }], '"br0" is not a bridge'],
  ] as [KernelLink[], string][])
    expect(refusalOf(() => find(...links))).toMatchObject({ code: 7, message, details })
})

// IFF_TUN 1, IFF_TAP 2
test.each<[object, Partial<TapConfig>, Partial<KernelLink>, string | undefined]>([
  [{}, {}, {}, undefined],
  [{ owner: 0, group: 5, multiQueue: 1 }, { owner: 0, group: 5, multiQueue: true }, {}, undefined],
  [{}, { bridge: "br0" }, { master: 4 }, undefined],
  [{ type: 1 }, {}, {}, 'type of "eth0" failed: expected tap, found tun'],
  [{}, {}, { kind: "veth" }, 'type of "eth0" failed: expected tap, found tun'],
  [{ owner: 5 }, {}, {}, 'owner of "eth0" failed: expected none, found 5'],
  [{}, { owner: 0 }, {}, 'owner of "eth0" failed: expected 0, found none'],
  [{ group: 5 }, { group: 6 }, {}, 'group of "eth0" failed: expected 6, found 5'],
  [{ multiQueue: 1 }, {}, {}, 'multiQueue of "eth0" failed: expected false, found true'],
  [{}, { multiQueue: true }, {}, 'multiQueue of "eth0" failed: expected true, found false'],
  [{}, { bridge: "br0" }, {}, 'bridge of "eth0" failed: expected br0, found none'],
  [{}, { bridge: "br0" }, { master: 3 }, 'bridge of "eth0" failed: expected br0, found up0'],
  [{}, { bridge: "br0" }, { master: 9 }, 'bridge of "eth0" failed: expected br0, found none'],
])("CHECK compares a tap with %j with what was asked for", (found, keys, link, refused) => {
  const data = linkKinds.tun.encode({ type: 2, multiQueue: 0, ...found })
  const links = [bridge, { index: 3, name: "up0" }]
  const made = { index: 9, name: "eth0", kind: "tun", data, ...link } as const
  const check = () => checkTap(new TestAttaching(links).checking(made), { ...config, ...keys })
  if (refused === undefined) check()
  else expect(check).toThrow(`Check of ${refused}`)
})
