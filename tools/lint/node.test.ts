import { expect, test } from "bun:test"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"
import { serviceRangesOf } from "./node.ts"

test.each([
  ["    - --service-cluster-ip-range=10.96.0.0/12\n", ["10.96.0.0/12"]],
  ["    - --service-cluster-ip-range=10.96.0.0/12,fd00:96::/112\n", ["10.96.0.0/12", "fd00:96::/112"]],
  ['    - "--service-cluster-ip-range" "10.96.0.0/12"\n', []],
  ["--service-cluster-ip-range '10.96.0.0/12'", ["10.96.0.0/12"]],
  ['--service-cluster-ip-range="FD00::/112"', ["FD00::/112"]],
  ["    - --other=10.96.0.0/12\n", []],
])("the ranges of services in the manifest %j are %j", async (text, ranges) => {
  await using directory = await TemporaryDirectory.create()
  await Bun.write(directory.join("kube-apiserver.yaml"), text)
  expect(serviceRangesOf(directory.join("kube-apiserver.yaml"))).toEqual(ranges)
})

test("a node without a manifest has none", () => {
  expect(serviceRangesOf("/does/not/exist")).toEqual([])
})
