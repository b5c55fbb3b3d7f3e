import { afterAll, expect, test } from "bun:test"
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { encodeUtf8 } from "../engine/mod.ts"
import type { Ifindex } from "../netlink/mod.ts"
import { linkOf } from "../netlink/testing/links.ts"
import { type DeviceRecord, DeviceRecords, decodeRecord, describeDevice, encodeRecord, markOf } from "./record.ts"

const directory = mkdtempSync(join(tmpdir(), "devices-"))
afterAll(() => rmSync(directory, { recursive: true }))

const owner = { network: "lab", containerId: "c1", ifName: "eth0" }
const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
const link = linkOf({
  index: 5,
  name: "ens5",
  flags: 0x1083,
  mtu: 1400,
  mac: "0a:00:00:00:00:05",
  alias: "to the lab/3: ü",
  altNames: ["enp3s0"],
  parentName: "0000:03:00.0",
  parentBus: "pci",
  permanentMac: "0a:00:00:00:00:05",
})
const record: DeviceRecord = { ...describeDevice(link), netns: 4026532547n, nsid: 3, index: 7 as Ifindex }

const written = {
  boot,
  former: {
    name: "ens5",
    alias: "to the lab/3: ü",
    up: true,
    options: 0x1080,
    mtu: 1400,
    mac: "0a:00:00:00:00:05",
    altNames: ["enp3s0"],
  },
  device: { kind: "", parent: "0000:03:00.0", bus: "pci", permanentMac: "0a:00:00:00:00:05" },
  hostIndex: 5,
  netns: "4026532547",
  nsid: 3,
  index: 7,
}

test("a record says what the device was, which it is, and where it is given to", () => {
  const records = new DeviceRecords(directory)
  records.write({ owner, record })
  const path = join(directory, "lab:c1:eth0.json")
  expect(JSON.parse(readFileSync(path, "utf8"))).toEqual(written)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(records.read(owner)).toEqual(record)
  expect(records.list()).toEqual([{ owner, record }])
})

const encode = (value: unknown) => decodeRecord(encodeUtf8(JSON.stringify(value)))

test.each<[string, unknown]>([
  ["of an earlier boot", { ...written, boot: "b5b7b0f5-0000-0000-0000-000000000000" }],
  ["without a boot", { ...written, boot: undefined }],
  ["without a name", { ...written, former: { ...written.former, name: undefined } }],
  ["with an MTU that is not a number", { ...written, former: { ...written.former, mtu: "x" } }],
  ["with a namespace that is not a number", { ...written, netns: "x" }],
  ["without an index", { ...written, index: undefined }],
  ["that is not an object", ["lab"]],
])("a record %s cannot be used", (_, value) => {
  expect(encode(written)).toEqual(record)
  expect(encode(value)).toBeUndefined()
})

test("a torn file is not a record, and does not hide the others", () => {
  const records = new DeviceRecords(directory)
  writeFileSync(join(directory, "lab:c2:eth0.json"), encodeRecord(record).subarray(0, 50))
  writeFileSync(join(directory, ".lab:c3:eth0.json"), "")
  writeFileSync(join(directory, "lab-2:c4:eth0.json"), "")
  expect(records.list()).toEqual([{ owner, record }])
  expect(
    records
      .listOwners("lab")
      .map(({ containerId }) => containerId)
      .sort(),
  ).toEqual(["c1", "c2", "c3"])
  for (const containerId of ["c1", "c2", "c3"]) records.remove({ ...owner, containerId })
  expect(readdirSync(directory)).toEqual(["lab-2:c4:eth0.json"])
})

test("one call at a time works on the records; without a directory there are none to work on", () => {
  const records = new DeviceRecords(join(directory, "new"))
  expect([records.lock(), records.read(owner), records.list()]).toEqual([undefined, undefined, []])
  {
    using first = records.open()
    expect(first).toBeDefined()
    expect(statSync(join(directory, "new")).mode & 0o777).toBe(0o700)
    const { exitCode } = Bun.spawnSync(["flock", "-n", join(directory, "new"), "true"])
    expect(exitCode).toBe(1)
  }
  using _again = records.lock()
  chmodSync(join(directory, "new"), 0o777)
  expect(() => new DeviceRecords(join(directory, "new")).open()).toThrow("all users may write")
})

test("the mark on a device is its owner's name, of as many bytes as an alternative name may have", () => {
  expect(markOf(owner)).toBe("lab:c1:eth0")
  const long = { network: "ü".repeat(90), containerId: "c".repeat(200), ifName: "ü".repeat(7) }
  expect(encodeUtf8(markOf(long)).length).toBeLessThanOrEqual(127)
})
