import { expect, test } from "bun:test"
import { decodeUtf8 } from "../engine/mod.ts"
import { type Ifindex, type Link, NETLINK_ROUTE, NetlinkSocket } from "../netlink/mod.ts"
import { acknowledge, ScriptedKernel } from "../netlink/testing.ts"
import { refusalOf } from "../types/testing.ts"
import { aliasedFormer, deleteRecord, formerName, readRecord, writeRecord } from "./record.ts"

const [EPERM, ENOENT, EEXIST, ENODEV, EINVAL] = [1, 2, 17, 19, 22]
const owner = { network: "lab", containerId: "ctr-1", ifName: "eth0" }

function device(attributes: Link["attributes"] = {}, flags = 1): Link {
  return {
    index: 3 as Ifindex,
    name: "ens5",
    flags,
    type: 1,
    mac: "0a:00:00:00:00:05",
    mtu: 1400,
    kind: "",
    attributes,
  }
}

/** The names that are written, to a kernel that refuses from the n-th request on. */
function written(link: Link, refusedFrom = Number.POSITIVE_INFINITY) {
  const kernel = new ScriptedKernel((request) => [
    acknowledge(request, kernel.requests.length >= refusedFrom && request.type === 108 ? EEXIST : 0),
  ])
  const write = () => writeRecord(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), link, owner, 4026532547n)
  const refusal = refusedFrom === Number.POSITIVE_INFINITY ? write() : refusalOf(write)
  const requests = kernel.requests.map(({ type, payload }) => [
    type,
    decodeUtf8(payload.subarray(24)).replace(/\0+$/, ""),
  ])
  return { requests, refusal }
}

test("a device carries whose it is and what it was in two names, which `ip link property del` takes", () => {
  const { requests } = written(device({ alias: "to the lab/3: ü" }))
  const state = "ens5:up:1400:0a-00-00-00-00-05:4026532547:to%20the%20lab%2F3%3A%20%C3%BC"
  expect(requests).toEqual([
    [108, "lab:ctr-1:eth0"],
    [108, state],
  ])
  const altNames = ["enp0s5", "lab:ctr-1:eth0", state]
  const former = { name: "ens5", up: true, mtu: 1400, mac: "0a:00:00:00:00:05", alias: "to the lab/3: ü" }
  expect(readRecord(device({ altNames }))).toEqual({ owner: "lab/ctr-1/eth0", former })
  expect(readRecord(device({ altNames }), 4026532547n)).toEqual({ owner: "lab/ctr-1/eth0", former })
})

test("a record for another namespace is none", () => {
  const [[, first = ""] = [], [, second = ""] = []] = written(device({}, 0)).requests as string[][]
  expect(readRecord(device({ altNames: [first, second] }))?.former).toMatchObject({ up: false, alias: "" })
  expect(readRecord(device({ altNames: [first, second] }), 4026532548n)).toBeUndefined()
})

test("with the owner alone, as a killed ADD leaves it, nothing was changed yet", () => {
  expect(readRecord(device({ altNames: ["lab:ctr-1:eth0"] }), 5n)).toEqual({
    owner: "lab/ctr-1/eth0",
    former: undefined,
  })
})

test("of two owners the first counts", () => {
  expect(readRecord(device({ altNames: ["lab:a:eth0", "lab:b:eth0"] }))?.owner).toBe("lab/a/eth0")
})

test("other names are no record, and what a container has made of one breaks nothing", () => {
  expect(readRecord(device())).toBeUndefined()
  expect(readRecord(device({ altNames: ["enp0s5", "a:b", "a b:up:x:::"] }))).toBeUndefined()
  expect(readRecord(device({ altNames: ["e:up:1::5:%zz"] }))?.former).toMatchObject({ name: "e", alias: "" })
})

test("a record that cannot be written leaves nothing, and says so", () => {
  expect(written(device(), 1).requests).toHaveLength(1)
  const second = written(device(), 2)
  expect(second.requests.map(([type]) => type)).toEqual([108, 108, 109])
  expect(second.requests[2]?.[1]).toBe("lab:ctr-1:eth0")
  expect(second.refusal).toMatchObject({ code: 11, message: expect.stringContaining('"ens5"') })
})

test("an alias that has no room beside the rest is refused", () => {
  const { refusal, requests } = written(device({ alias: "x".repeat(86) }), 1)
  expect(refusal).toMatchObject({ code: 7, message: expect.stringContaining("alias") })
  expect(requests).toEqual([])
  expect(written(device({ alias: "x".repeat(85) })).requests).toHaveLength(2)
})

test("the alias of the Go suite is the name, unless it cannot be one", () => {
  expect(aliasedFormer(device({ alias: "ens5" }))).toEqual({ name: "ens5", alias: "" })
  for (const alias of ["lab/ctr-1/eth0", "to the lab", "x".repeat(16), ""]) {
    expect(aliasedFormer(device({ alias }))).toBeUndefined()
  }
})

test("what a device was called on the host is in its record, else in the alias of the Go suite, or unknown", () => {
  const altNames = ["lab:a:eth0", "ens5:up:1400::5:"]
  expect(formerName(device({ altNames, alias: "ens9" }))).toBe("ens5")
  expect(formerName(device({ altNames: ["lab:a:eth0"], alias: "ens9" }))).toBe("ens9")
  expect(formerName(device())).toBeUndefined()
})

test.each([
  ["another ADD has taken the name off", ENOENT],
  ["another device has the name", EINVAL],
  ["the device has gone", ENODEV],
])("a record is off also when %s; each of its names is tried, the owner's last", (_, errno) => {
  const kernel = new ScriptedKernel((request) => [acknowledge(request, errno)])
  const state = "ens5:up:1400::5:"
  const link = device({ altNames: ["lab:a:eth0", state] })
  deleteRecord(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), link)
  const names = kernel.requests.map(({ payload }) => decodeUtf8(payload.subarray(24)).replace(/\0+$/, ""))
  expect(names).toEqual([state, "lab:a:eth0"])
})

test("names that only look like a record are others' and stay", () => {
  const kernel = new ScriptedKernel((request) => [acknowledge(request)])
  const altNames = [
    "enp0s5",
    "a:b",
    "a:b:c:d",
    "e:up:1::5:x:y",
    "x:e:up:1::5:",
    "a b:up:1::5:",
    "e:on:1::5:",
    "e:up:x::5:",
  ]
  const link = device({ altNames })
  deleteRecord(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), link)
  expect(kernel.requests).toEqual([])
  expect(readRecord(link)).toBeUndefined()
})

test("a record that may not be taken off is an error", () => {
  const kernel = new ScriptedKernel((request) => [acknowledge(request, EPERM)])
  const link = device({ altNames: ["lab:a:eth0"] })
  expect(() => deleteRecord(new NetlinkSocket(NETLINK_ROUTE, 0, kernel), link)).toThrow("EPERM")
})
