import { expect, test } from "bun:test"
import type { JsonObject } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseFlannelConfig } from "./config.ts"

const network = { cniVersion: "1.1.0", name: "podnet", type: "flannel" }
const parse = (raw: JsonObject, verb: "ADD" | "DEL" = "ADD") => parseFlannelConfig(network, { args: "", verb, raw })

test("without keys files and directories are upstream's, and there is nothing of the delegate", () => {
  const { delegate, ipam, ...others } = parse({})
  expect([delegate, ipam]).toEqual([{}, {}])
  expect(others).toMatchObject({
    cniVersion: undefined,
    name: "podnet",
    runtimeConfig: undefined,
    subnetFile: "/run/flannel/subnet.env",
    dataDir: "/var/lib/cni/flannel",
  })
  expect(parse({ cniVersion: "", DATADIR: "" })).toEqual(parse({}))
  expect(parse({ CNIVersion: "0.3.1", SubnetFile: "/a", dataDir: "/b" })).toMatchObject({
    cniVersion: "0.3.1",
    subnetFile: "/a",
    dataDir: "/b",
  })
})

test.each<[JsonObject, string]>([
  [{ subnetFile: "a" }, 'Cannot use "subnetFile": expected an absolute path, found "a"'],
  [{ dataDir: "/a\0b" }, 'Cannot use "dataDir": expected an absolute path, found "/a\\u0000b"'],
  [{ dataDir: "./b" }, 'Cannot use "dataDir": expected an absolute path, found "./b"'],
  [{ delegate: [] }, 'Cannot use "delegate": expected an object'],
  [{ delegate: { type: "" } }, 'Cannot use "delegate.type": expected the name of a plugin, found ""'],
  [{ delegate: { TYPE: 7 } }, 'Cannot use "delegate.type": expected the name of a plugin, found 7'],
  [{ delegate: { type: "flannel" } }, 'Cannot delegate to "flannel": a plugin cannot delegate to itself'],
  [{ delegate: { Name: "x" } }, 'Cannot use "delegate.name": it is set by flannel'],
  [{ delegate: { IPAM: {} } }, 'Cannot use "delegate.ipam": it is set by flannel'],
])("%j is code 7, and counts as absent for DEL", (raw, message) => {
  expect(refusalOf(() => parse(raw))).toMatchObject({ code: 7, message: expect.stringContaining(message) })
  expect(parse(raw, "DEL")).toEqual(parse({}))
})

test("keys that flannel sets are known in any case, and others stay as they are written", () => {
  const delegate = { Type: "ptp", IPMASQ: true, Mtu: 9, ISGateway: false, hairpinMode: true, X: 1 }
  expect(parse({ Delegate: delegate }).delegate).toEqual({
    type: "ptp",
    ipMasq: true,
    mtu: 9,
    isGateway: false,
    hairpinMode: true,
    X: 1,
  })
})
