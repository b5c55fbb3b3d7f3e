import { expect, test } from "bun:test"
import { chainName, containerComment, networkComment } from "./names.ts"

// Names that the Go suite has given.
test.each([
  ["CNI-", "test", "1234", "CNI-2bbe0c48b91a7d1b8a6753a8"],
  ["CNI-", "testalongnamethatdoesnotmakesense", "1234", "CNI-374f33fe84ab0ed84dcdebe3"],
  ["CNI-", "mynet", "ctr-1", "CNI-76edbb2e17c69aeb6041d986"],
  ["CNI-DN-", "tnet", "cid1", "CNI-DN-f67e00a966f2d1b8b0671"],
])("the chain %s… of network %s and container %s is %s, as upstream names it", (prefix, network, containerId, name) => {
  expect(chainName(prefix, { network, containerId })).toBe(name)
})

test("a comment is upstream's, begins with the network's, and never has more than iptables takes", () => {
  const owner = { network: "mynet", containerId: "ctr-1" }
  expect(containerComment(owner)).toBe('name: "mynet" id: "ctr-1"')
  expect(containerComment(owner, "dnat ")).toBe('dnat name: "mynet" id: "ctr-1"')
  expect(containerComment(owner)).toStartWith(networkComment("mynet"))
  const long = containerComment({ network: "mynet", containerId: "c".repeat(300) })
  expect(long).toHaveLength(255)
  expect(long).toEndWith("ccc...")
})
