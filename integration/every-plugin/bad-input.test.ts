import { expect, test } from "bun:test"
import {
  Attachment,
  bridgeNetwork,
  type ContainerNamespace,
  expectUnchanged,
  fail,
  HostNamespace,
  type PluginCall,
  takeSnapshot,
} from "../lab/mod.ts"

const good = bridgeNetwork({ isDefaultGateway: true, ipMasq: true })

/** Invalid input of a caller, the expected error code, and words of the message. */
const mistakes: {
  what: string
  call?: (host: HostNamespace, pod: ContainerNamespace) => Partial<PluginCall>
  keys?: object
  code: number
  says: string[]
}[] = [
  { what: "a variable is missing", call: () => ({ env: { CNI_IFNAME: "" } }), code: 4, says: ["CNI_IFNAME"] },
  {
    what: "several variables are missing",
    call: () => ({ env: { CNI_NETNS: "", CNI_IFNAME: "", CNI_PATH: "" } }),
    code: 4,
    says: ["CNI_NETNS,CNI_IFNAME,CNI_PATH"],
  },
  {
    what: "the container ID is malformed",
    call: () => ({ containerId: "a/b" }),
    code: 4,
    says: ["CNI_CONTAINERID", "a/b"],
  },
  { what: "the interface name is too long", call: () => ({ ifName: "e".repeat(16) }), code: 4, says: ["CNI_IFNAME"] },
  { what: "the command is unknown", call: () => ({ env: { CNI_COMMAND: "add" } }), code: 4, says: ["add"] },
  { what: "stdin is empty", call: () => ({ config: "" }), code: 6, says: [] },
  { what: "stdin is not JSON", call: () => ({ config: '{\n  "name": nope\n}' }), code: 6, says: ["line 2"] },
  { what: "stdin is a list", call: () => ({ config: "[]" }), code: 6, says: ["object"] },
  { what: "stdin has no end", call: () => ({ config: new Uint8Array(17 << 20).fill(0x20) }), code: 5, says: ["16"] },
  { what: "the network has no name", keys: { name: "" }, code: 7, says: ["name"] },
  { what: "the network's name is malformed", keys: { name: "a/b" }, code: 7, says: ["a/b"] },
  {
    what: "a key has the wrong type",
    keys: { isGateway: "yes" },
    code: 7,
    says: ["isGateway", "true or false", '"yes"'],
  },
  { what: "a value is out of range", keys: { mtu: 70000 }, code: 7, says: ["mtu", "65535", "70000"] },
  { what: "a MAC is malformed", keys: { runtimeConfig: { mac: "zz" } }, code: 7, says: ["runtimeConfig.mac", "zz"] },
  {
    what: "the IPAM range cannot be parsed",
    keys: { ipam: { type: "host-local", ranges: [[{ subnet: "10.1.2.3/40" }]] } },
    code: 7,
    says: ["10.1.2.3/40"],
  },
  { what: "the version is unknown", keys: { cniVersion: "9.9.9" }, code: 1, says: ["9.9.9"] },
  { what: "the version is not a string", keys: { cniVersion: 1 }, code: 6, says: ["cniVersion"] },
  { what: "CNI_ARGS has an unknown key", call: () => ({ args: "FOO=bar" }), code: 4, says: ["FOO=bar"] },
  { what: "the namespace is our own", call: (host) => ({ netns: host.path }), code: 8, says: ["CNI_NETNS"] },
  {
    what: "the namespace does not exist",
    call: () => ({ netns: "/run/netns/no-such" }),
    code: 4,
    says: ["/run/netns/no-such"],
  },
  {
    what: "the namespace is a plain file",
    call: () => ({ netns: "/etc/hostname" }),
    code: 4,
    says: ["not a network namespace"],
  },
  {
    what: "the namespace is of another kind",
    call: () => ({ netns: "/proc/self/ns/uts" }),
    code: 4,
    says: ["not a network namespace"],
  },
  {
    what: "the namespace is a device",
    call: () => ({ netns: "/dev/zero" }),
    code: 4,
    says: ["not a network namespace"],
  },
]

test.each(mistakes)("when $what, ADD says so and nothing has changed", async ({ call, keys = {}, code, says }) => {
  await using host = await HostNamespace.create()
  const pod = await host.addContainer()
  const before = await takeSnapshot(host)
  const inside = await takeSnapshot(pod)
  const error = await fail(new Attachment(host, pod, good).run("ADD", keys, call?.(host, pod)))
  expect(error.code).toBe(code)
  for (const words of says) expect(`${error.msg}; ${error.details ?? ""}`).toContain(words)
  expect(error.cniVersion).not.toBe("")
  expectUnchanged(before, await takeSnapshot(host))
  expectUnchanged(inside, await takeSnapshot(pod))
})
