/** Tests ADD of flannel, which reads the container's namespace. A fake plugin is its delegate. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { FlannelNode } from "../../../meta/flannel/testing/call.ts"
import { PluginNotFound } from "../../../pkg/invoke/mod.ts"
import { NamespaceFile, Netns } from "../../../pkg/netns/mod.ts"
import { CniError, type JsonObject } from "../../../pkg/types/mod.ts"
import { refusalOf } from "../../../pkg/types/testing.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
})
afterAll(() => host[Symbol.asyncDispose]())

function add(node: FlannelNode, keys: JsonObject = {}, ifName = "eth0"): void {
  using namespace = Netns.open(host.path)
  using container = NamespaceFile.open(pod.path)
  namespace.run(() => node.run("ADD", keys, { namespace: container, netns: pod.path, ifName }))
}

const wanted = {
  cniVersion: "1.1.0",
  name: "podnet",
  type: "bridge",
  mtu: 1450,
  ipMasq: false,
  isGateway: true,
  ipam: { type: "host-local", ranges: [[{ subnet: "10.244.1.0/24" }]], routes: [{ dst: "10.244.0.0/16" }] },
}
const own = "podnet:c1:eth0.json"

test("the delegate's configuration is kept before it is called, and is the one that it is called with", () => {
  using node = new FlannelNode()
  add(node, { runtimeConfig: { mac: "x" } })
  expect(node.called).toEqual([["ADD bridge", { ...wanted, runtimeConfig: { mac: "x" } }]])
  expect(JSON.parse(node.kept[own] ?? "")).toEqual({ ...wanted, runtimeConfig: { mac: "x" } })
  expect(Object.keys(node.kept)).toEqual([own])
})

test("a delegate that fails is undone and forgotten; its error has what to do about a subnet that has changed", () => {
  using node = new FlannelNode()
  add(node, { name: "podnet", delegate: { type: "ptp" } })
  node.called.length = 0
  node.refusals.set("ADD", new CniError(11, "no room", { details: "why" }))
  expect(refusalOf(() => add(node, {}, "net1"))).toMatchObject({ code: 11, message: "no room", details: "why" })
  expect(node.called).toEqual([
    ["ADD bridge", wanted],
    ["DEL bridge", wanted],
  ])
  expect(Object.keys(node.kept)).toEqual([own])
  node.moveTo("10.244.7.1/24")
  expect(refusalOf(() => add(node, {}, "net1")).details).toStartWith(
    "why; the subnet of this node changed from 10.244.1.0/24 to 10.244.7.0/24: delete",
  )
  expect(node.log).toEqual([])
})

test("an answer that is not read undoes it; a delegate that cannot be undone is logged, and kept for DEL", () => {
  using node = new FlannelNode()
  node.refusesAnswer = true
  expect(() => add(node)).toThrow("no reader")
  expect(node.called.map(([what]) => what)).toEqual(["ADD bridge", "DEL bridge"])
  expect(node.kept).toEqual({})
  node.refusals.set("DEL", new CniError(11, "busy"))
  expect(() => add(node)).toThrow("no reader")
  expect(node.log).toEqual(['Cannot undo "attach by "bridge"": busy'])
  expect(Object.keys(node.kept)).toEqual([own])
})

test("a delegate that does not exist has nothing to undo, unless a directory could not be looked into", () => {
  using node = new FlannelNode()
  for (const verb of ["ADD", "DEL"]) node.refusals.set(verb, new PluginNotFound("Cannot find it", "delegate.type"))
  expect(() => add(node)).toThrow("Cannot find it")
  expect([node.log, node.kept]).toEqual([[], {}])
  const hidden = Object.assign(new Error("EACCES"), { errno: "EACCES" }) as never
  node.refusals.set("DEL", new PluginNotFound("Cannot find it", "delegate.type", hidden))
  expect(() => add(node)).toThrow("Cannot find it")
  expect(node.log).toEqual(['Cannot undo "attach by "bridge"": Cannot find it'])
  expect(Object.keys(node.kept)).toEqual([own])
})

test("an interface that is there, or a missing file of flanneld's, is refused before anything is kept or called", async () => {
  using node = new FlannelNode()
  await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
  expect(() => add(node)).toThrow("eth0")
  await pod.exec("ip", ["link", "del", "eth0"])
  node.moveTo("not a subnet")
  expect(() => add(node)).toThrow("FLANNEL_SUBNET")
  expect([node.kept, node.called]).toEqual([{}, []])
})
