/**
 * Tests that chained plugins with nothing to do send no requests to nf_tables. nf_tables refuses all requests of these
 * plugins.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type * as firewall from "../../../meta/firewall/main.ts"
import type * as portmap from "../../../meta/portmap/main.ts"
import type * as skel from "../../../pkg/skel/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { runOnHost } from "./rooms.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
})
afterAll(() => host[Symbol.asyncDispose]())

type Rooms = typeof firewall & typeof portmap & typeof skel
const rooms = ["skel/mod.ts", "../meta/firewall/main.ts", "../meta/portmap/main.ts"]

/** Calls a plugin without CAP_NET_ADMIN, so that nf_tables refuses with EPERM. */
function call(plugin: "firewall" | "portmap", verb: "ADD" | "CHECK", keys: object) {
  type Given = { plugin: typeof plugin; verb: typeof verb; keys: object }
  return runOnHost<{ exitCode: number; json: unknown }, Rooms & Given>(
    host,
    pod,
    ({ serve, sandbox, plugin, verb, keys, ...rooms }) => {
      const env = {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: "eth0",
        CNI_NETNS: sandbox.path,
        CNI_PATH: "/nowhere",
      }
      const config = { cniVersion: "1.1.0", name: "lab", type: plugin, ...keys }
      const stdin = () => new TextEncoder().encode(JSON.stringify(config))
      const { exitCode, stdout } = serve(rooms[plugin] as skel.Plugin<unknown>, { env, stdin, log: () => {} })
      return { exitCode, json: stdout === "" ? undefined : JSON.parse(stdout) }
    },
    { more: rooms, given: { plugin, verb, keys }, isPowerless: true },
  )
}

const interfaces = [{ name: "br0" }, { name: "veth1" }, { name: "eth0", sandbox: "/run/netns/c1" }]
const prevResult = { cniVersion: "1.1.0", interfaces, ips: [{ address: "10.1.0.2/16", interface: 2 }] }
const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }]

test.each([
  ["portmap", "without mappings", { prevResult }],
  ["portmap", "without an address", { prevResult: { ...prevResult, ips: [] }, runtimeConfig: { portMappings } }],
  ["firewall", "without an address", { prevResult: { ...prevResult, ips: [] } }],
] as const)("%s %s succeeds where nf_tables may not be asked", async (plugin, _, keys) => {
  expect(await call(plugin, "ADD", keys)).toMatchObject({ exitCode: 0, json: { interfaces } })
  expect(await call(plugin, "CHECK", keys)).toEqual({ exitCode: 0, json: undefined })
})

test.each(["portmap", "firewall"] as const)("%s with something to do is refused there", async (plugin) => {
  for (const verb of ["ADD", "CHECK"] as const)
    expect(await call(plugin, verb, { prevResult, runtimeConfig: { portMappings } })).toMatchObject({
      exitCode: 1,
      json: { code: 999, msg: "Cannot read the generation of the rule set: EPERM" },
    })
})
