import { expect, test } from "bun:test"
import { nothingLeased, TestAttaching } from "../../pkg/attachment/testing/attaching.ts"
import { IFF_UP } from "../../pkg/netlink/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { attachDummy, dummy } from "./main.ts"

const config = { mtu: 1400, mac: "0a:00:00:00:00:07", ipam: "static", dns: undefined }

test("the plugin has its name", () => {
  expect(dummy.name).toBe("dummy")
})

test("ADD makes the interface in the container, names it for its owner, brings it up, and answers it", () => {
  const { attaching, kernel, undo } = new TestAttaching([])
  const answered = attachDummy(attaching, () => nothingLeased, config)
  expect(kernel.links).toEqual([
    { verb: "add", index: 0, flags: 0, change: 0, name: "eth0", mtu: 1400, mac: config.mac, kind: "dummy", data: {} },
    { verb: "set", index: 0, flags: 0, change: 0, name: "eth0", alias: "lab/c1/eth0" },
    { verb: "set", index: 100, flags: IFF_UP, change: IFF_UP },
  ])
  expect(answered).toEqual([{ name: "eth0", mac: config.mac, mtu: 1400, sandbox: "/run/netns/c1" }])
  undo[Symbol.dispose]()
  expect(kernel.links.at(-1)).toMatchObject({ verb: "delete", index: 100 })
})

test("a kernel without the kind is told what it lacks", () => {
  const { attaching } = new TestAttaching([], { refusal: ({ type }) => (type === 16 ? 95 : 0) })
  expect(refusalOf(() => attachDummy(attaching, () => nothingLeased, config))).toMatchObject({
    message: 'Cannot create dummy "eth0" in "/run/netns/c1"',
    details: expect.stringContaining("dummy"),
  })
})
