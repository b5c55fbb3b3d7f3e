import { describe, expect, test } from "bun:test"
import { chmodSync, mkdirSync, rmSync } from "node:fs"
import { CniError } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { flannel } from "./main.ts"
import { FlannelNode } from "./testing/call.ts"

const own = "podnet:c1:eth0.json"
const ranges = [[{ subnet: "10.244.1.0/24" }]]
const keptConfig = {
  cniVersion: "1.0.0",
  name: "podnet",
  type: "bridge",
  mtu: 1450,
  ipMasq: false,
  isGateway: true,
  ipam: { type: "host-local", ranges, routes: [{ dst: "10.244.0.0/16" }] },
}
const runtime = { prevResult: { cniVersion: "1.1.0", ips: [] }, runtimeConfig: { mac: "x" } }

function nodeWith(files: Record<string, object | string>): FlannelNode {
  const node = new FlannelNode()
  mkdirSync(node.dataDir, { mode: 0o700 })
  for (const [name, config] of Object.entries(files)) node.keep(name, config)
  return node
}

test("its name is that of its type", () => expect(flannel.name).toBe("flannel"))

describe("CHECK", () => {
  test("is the delegate's, by the configuration of ADD with what the runtime says now", () => {
    using node = nodeWith({ [own]: keptConfig })
    node.run("CHECK", { ...runtime, delegate: { type: "ptp" } })
    expect(node.called).toEqual([["CHECK bridge", { ...keptConfig, cniVersion: "1.1.0", ...runtime }]])
  })

  test("names a configuration that is missing, or cannot be parsed", () => {
    using node = nodeWith({})
    expect(refusalOf(() => node.run("CHECK")).message).toBe(
      `Check of the delegate's configuration failed: expected one of "c1" in "${node.dataDir}", found none`,
    )
    node.keep(own, "{")
    expect(refusalOf(() => node.run("CHECK"))).toMatchObject({
      code: 6,
      message: `Cannot decode the delegate's configuration "${node.dataDir}/${own}"`,
    })
  })

  test("says that the node has another subnet by now, and what to do", () => {
    using node = nodeWith({ [own]: keptConfig })
    node.moveTo("10.244.7.1/24")
    expect(refusalOf(() => node.run("CHECK"))).toMatchObject({
      code: 999,
      message: "Check of the subnet failed: expected 10.244.1.0/24, found 10.244.7.0/24",
      details:
        "the subnet of this node changed from 10.244.1.0/24 to 10.244.7.0/24: delete the containers with addresses of the former subnet, " +
        "then the bridge if it has the former gateway",
    })
    expect(node.called).toEqual([])
  })
})

describe("DEL", () => {
  test("is the delegate's, by the configuration of ADD, which is kept until it has succeeded", () => {
    using node = nodeWith({ [own]: keptConfig, "podnet:c2:eth0.json": keptConfig })
    node.refusals.set("DEL", new CniError(11, "busy"))
    expect(() => node.run("DEL", runtime)).toThrow("busy")
    expect(Object.keys(node.kept)).toEqual([own, "podnet:c2:eth0.json"])
    node.refusals.clear()
    node.run("DEL", runtime)
    const called = ["DEL bridge", { ...keptConfig, cniVersion: "1.1.0", ...runtime }]
    expect(node.called as unknown[]).toEqual([called, called])
    expect(Object.keys(node.kept)).toEqual(["podnet:c2:eth0.json"])
  })

  test("of what the reference plugin has kept goes by the container's id, unless that is another network's", () => {
    using node = nodeWith({ c1: keptConfig, c2: { ...keptConfig, name: "other" } })
    node.run("DEL")
    node.run("DEL", {}, { containerId: "c2" })
    expect(node.called.map(([what, config]) => [what, config.mtu])).toEqual([
      ["DEL bridge", 1450],
      ["DEL bridge", undefined],
    ])
    expect(Object.keys(node.kept)).toEqual(["c2"])
  })

  test("where nothing is kept, or what cannot be read, is asked of the present delegate, whose refusal is a line of the log", () => {
    using node = nodeWith({ [own]: "{" })
    node.refusals.set("DEL", new CniError(7, "no subnet"))
    const keys = { delegate: { type: "ptp", mtu: 9 }, ipam: { type: "dhcp", subnet: "10.1.0.0/16" } }
    node.run("DEL", { ...keys, ...runtime })
    const wanted = { cniVersion: "1.1.0", name: "podnet", type: "ptp", mtu: 9, ipam: { type: "dhcp" }, ...runtime }
    expect(node.called).toEqual([["DEL ptp", wanted]])
    expect(node.log).toEqual([
      "no configuration of the delegate was stored, and DEL with the current one failed: no subnet",
    ])
    expect(node.kept).toEqual({})
    node.refusals.set("DEL", new TypeError("a bug"))
    expect(() => node.run("DEL")).toThrow("a bug")
  })
})

describe("STATUS", () => {
  test("is the delegate's, with the configuration that ADD would have", () => {
    using node = new FlannelNode()
    node.run("STATUS", { delegate: { hairpinMode: true } })
    expect(node.called).toEqual([["STATUS bridge", { ...keptConfig, cniVersion: "1.1.0", hairpinMode: true }]])
    expect(node.log).toEqual([])
  })

  test("is code 50 without flanneld's file, and where nothing could be kept", () => {
    using node = new FlannelNode()
    rmSync(node.subnetFile)
    expect(refusalOf(() => node.run("STATUS"))).toMatchObject({
      code: 50,
      message: `Cannot read the subnet file "${node.subnetFile}": flanneld has not written it`,
    })
    node.moveTo("10.244.1.1/24")
    mkdirSync(node.dataDir)
    chmodSync(node.dataDir, 0o777)
    expect(refusalOf(() => node.run("STATUS")).code).toBe(50)
    expect(node.called).toEqual([])
  })

  test("logs that other attachments have a former subnet, or adds it to the delegate's refusal", () => {
    using node = nodeWith({ [own]: keptConfig, c2: keptConfig, "other:c3:eth0.json": keptConfig })
    node.run("STATUS")
    expect(node.log).toEqual([])
    node.moveTo("10.244.7.1/24")
    node.run("STATUS")
    const advice = "the subnet of this node changed from 10.244.1.0/24 to 10.244.7.0/24: delete"
    expect(node.log).toEqual([expect.stringContaining(advice)])
    for (const [details, expected] of [
      ["why", `why; ${advice}`],
      ["", advice],
    ] as const) {
      node.refusals.set("STATUS", new CniError(50, "no room", { details }))
      expect(refusalOf(() => node.run("STATUS"))).toMatchObject({
        code: 50,
        message: "no room",
        details: expect.stringMatching(new RegExp(`^${expected.replaceAll(".", "\\.")}`)),
      })
    }
    node.refusals.set("STATUS", new TypeError("a bug"))
    expect(() => node.run("STATUS")).toThrow("a bug")
    node.moveTo("10.244.1.1/24")
    node.refusals.set("STATUS", new CniError(50, "no room", { details: "why" }))
    expect(refusalOf(() => node.run("STATUS")).details).toBe("why")
  })
})

describe("GC", () => {
  const attachments = [{ containerID: "c1", ifname: "eth0", ignored: 1 }]
  const valid = [{ containerID: "c1", ifname: "eth0" }]

  test("is that of each delegate that has attached containers of the network, and of the present one; then what is stale goes", () => {
    using node = nodeWith({
      [own]: { ...keptConfig, mtu: 7 },
      "podnet:c2:eth0.json": { ...keptConfig, type: "ptp" },
      "podnet:c3:eth0.json": "{",
      ".podnet:c4:eth0.json": "{}",
      ".other:c4:eth0.json": "{}",
      "other:c5:eth0.json": { ...keptConfig, type: "vlan" },
      c6: keptConfig,
      c7: { ...keptConfig, name: "other" },
    })
    node.run("GC", { delegate: { type: "macvlan" }, ...runtime }, { attachments })
    expect(node.called.map(([what]) => what)).toEqual(["GC macvlan", "GC bridge", "GC ptp"])
    for (const [, config] of node.called) {
      expect(config["cni.dev/valid-attachments"]).toEqual(valid)
      expect([config.prevResult, config.runtimeConfig, config.cniVersion]).toEqual([undefined, undefined, "1.1.0"])
    }
    expect(Object.keys(node.kept)).toEqual([".other:c4:eth0.json", "c7", "other:c5:eth0.json", own])
  })

  test("forgets nothing when a delegate fails, after it has asked all", () => {
    using node = nodeWith({ "podnet:c2:eth0.json": { ...keptConfig, type: "ptp" } })
    node.refusals.set("GC", new CniError(11, "busy"))
    expect(refusalOf(() => node.run("GC", {}, { attachments })).message).toBe("2 steps failed: busy; busy")
    expect(node.called).toHaveLength(2)
    expect(Object.keys(node.kept)).toEqual(["podnet:c2:eth0.json"])
  })

  test("keeps what the reference plugin has kept for a valid container", () => {
    using node = nodeWith({ c1: keptConfig })
    node.run("GC", {}, { attachments })
    expect(Object.keys(node.kept)).toEqual(["c1"])
  })
})
