/**
 * What `cni lint` says of a configuration on a node: its interfaces, routes, files, and the plugins that are installed.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { chmod, writeFile } from "node:fs/promises"
import { NodeScene } from "./node-scene.fixture.ts"

let node: NodeScene
beforeAll(async () => {
  node = await NodeScene.create()
  const lines = [
    "link add uplink type veth peer name far",
    "link set uplink up mtu 1400",
    "link set far up",
    "link add br9 type bridge",
    "link set br9 up",
    "address add 192.168.77.9/24 dev uplink",
    "address add 192.168.79.1/24 dev br9",
    "address add 2001:db8:77::1/64 dev uplink nodad",
    "route add default via 192.168.77.1",
    "route add 192.168.78.5/32 dev uplink",
    "route add unreachable 192.168.80.0/24",
  ]
  await node.host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
  const versions = (text: string) => `#!/bin/sh\necho '${text}'\n`
  const plugins = {
    elder: '{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}',
    ...Object.fromEntries(
      ["macvlan", "ipvlan", "ptp", "static"].map((name) => [
        name,
        '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}',
      ]),
    ),
  }
  for (const [name, text] of Object.entries(plugins)) {
    await writeFile(node.scratch.join(`bin/${name}`), versions(text))
    await chmod(node.scratch.join(`bin/${name}`), 0o755)
  }
})
afterAll(() => node[Symbol.asyncDispose]())

/** The findings on the node for a plugin; "BIN" stands for the directory of plugins. */
async function found(plugin: string, ...args: string[]): Promise<string[]> {
  const file = node.scratch.join("net.conflist")
  await writeFile(file, `{ "cniVersion": "1.1.0", "name": "net", "plugins": [\n${plugin}\n] }\n`)
  const { stdout } = await node.tool.run(["lint", file, "--node", "--json", ...args])
  return JSON.parse(stdout).findings.map(({ line, column, severity, rule, message, hint }: Record<string, string>) =>
    `${line}:${column} ${severity} ${rule}: ${message}${hint === undefined ? "" : ` = ${hint}`}`.replaceAll(
      node.scratch.join("bin"),
      "BIN",
    ),
  )
}
const hostLocal = (subnet: string) => `"ipam": { "type": "host-local", "subnet": "${subnet}" }`
const bridge = (subnet: string, keys = "") => `{ "type": "bridge", ${keys}${hostLocal(subnet)} }`
const HINT = "choose a subnet to which the node has no other route"

test.each<[string, string, unknown[]]>([
  [
    "another route leads there",
    bridge("192.168.77.128/25"),
    [`2:63 error node-route: 192.168.77.128/25 overlaps the node's route to 192.168.77.0/24 by "uplink" = ${HINT}`],
  ],
  [
    "another route leads to a part of it",
    bridge("192.168.0.0/16"),
    [`2:63 error node-route: 192.168.0.0/16 overlaps the node's route to 192.168.77.0/24 by "uplink" = ${HINT}`],
  ],
  [
    "another IPv6 route leads there, also for ptp",
    `{ "type": "ptp", ${hostLocal("2001:db8:77::/64")} }`,
    [`2:60 error node-route: 2001:db8:77::/64 overlaps the node's route to 2001:db8:77::/64 by "uplink" = ${HINT}`],
  ],
  ["its own bridge leads there", bridge("192.168.79.0/24", '"bridge": "br9", '), []],
  [
    "another bridge leads there",
    bridge("192.168.79.0/24"),
    [`2:63 error node-route: 192.168.79.0/24 overlaps the node's route to 192.168.79.0/24 by "br9" = ${HINT}`],
  ],
  ["the bridge of a network without a name leads there", bridge("10.85.0.0/24"), []],
  ["a route to one address, a default route and one that leads nowhere are there", bridge("192.168.78.0/24"), []],
  ["a route that leads nowhere is there", bridge("192.168.80.0/24"), []],
  ["addresses of the kernel's own are there", bridge("fe80::/64"), []],
  [
    "its containers are in the node's own network",
    `{ "type": "macvlan", "master": "uplink", ${hostLocal("192.168.77.0/24")} }`,
    [expect.stringMatching(/^2:84 info shared-range: .*192\.168\.77\.0\/24/)],
  ],
])("routes: %s", async (_, plugin, expected) => {
  expect((await found(plugin)) as unknown[]).toEqual(expected)
})

const two = (...subnets: readonly string[]) =>
  `{ "type": "bridge", "ipam": { "type": "host-local", "ranges": [${subnets.map((subnet) => `[{ "subnet": "${subnet}" }]`)}] } }`

test.each([
  ["first", two("192.168.77.0/25", "10.22.0.0/24"), "2:77", "192.168.77.0/25"],
  ["last", two("10.22.0.0/24", "192.168.77.0/25"), "2:108", "192.168.77.0/25"],
])("routes: of two ranges the %s is the node's", async (_, plugin, place, subnet) => {
  expect(await found(plugin)).toEqual([
    `${place} error node-route: ${subnet} overlaps the node's route to 192.168.77.0/24 by "uplink" = ${HINT}`,
  ])
})

test("services: on a node each range is compared with those that are named and with those of its API server", async () => {
  const plugin = two("10.22.0.0/24", "10.96.3.0/24", "fd00:96::/120")
  const services = ["172.16.0.0/12", "10.96.0.0/12"].flatMap((range) => ["--service-range", range])
  const overlap = (place: string, range: string, service: string) =>
    `${place} error service-overlap: ${range} overlaps the range of service addresses, ${service} = kube-proxy takes these addresses for services`
  const named = overlap("2:108", "10.96.3.0/24", "10.96.0.0/12")
  expect(await found(plugin, ...services)).toEqual([named])
  const script = `set -e
mkdir -p /run/cni/etc/upper/kubernetes/manifests /run/cni/etc/work
echo "    - --service-cluster-ip-range=192.0.2.0/24,fd00:96::/112" >/run/cni/etc/upper/kubernetes/manifests/kube-apiserver.yaml
mount -t overlay -o lowerdir=/etc,upperdir=/run/cni/etc/upper,workdir=/run/cni/etc/work etc /etc`
  await node.host.exec("sh", ["-c", script])
  const known = overlap("2:139", "fd00:96::/120", "fd00:96::/112")
  expect(await found(plugin)).toEqual([known])
  expect(await found(plugin, ...services)).toEqual([named, known])
  await node.host.exec("umount", ["/etc"])
  expect(await found(plugin)).toEqual([])
})

const STATIC = '"ipam": { "type": "static" }'

test.each<[string, string, string[]]>([
  [
    "a master that does not exist",
    `{ "type": "macvlan", "master": "eth7", ${STATIC} }`,
    [`2:32 error no-master: this node has no interface "eth7" = "ip link" lists them`],
  ],
  ["a master in the container", `{ "type": "macvlan", "master": "eth7", "linkInContainer": true, ${STATIC} }`, []],
  [
    "more than the master's MTU",
    `{ "type": "macvlan", "master": "uplink", "mtu": 1401, ${STATIC} }`,
    ['2:49 error master-mtu: 1401 is more than the MTU of "uplink", 1400'],
  ],
  ["as much as the master's MTU", `{ "type": "macvlan", "master": "uplink", "mtu": 1400, ${STATIC} }`, []],
  [
    "more than the master's MTU for ipvlan, which takes less",
    `{ "type": "ipvlan", "master": "uplink", "mtu": 9000, ${STATIC} }`,
    [],
  ],
  [
    "a file that does not exist",
    '{ "type": "bridge", "ipam": { "type": "host-local", "subnet": "10.22.0.0/24", "resolvConf": "/does/not/exist" } }',
    ['2:93 error no-resolv-conf: "/does/not/exist" cannot be read: no container gets an address'],
  ],
  [
    "a file that is there",
    '{ "type": "bridge", "ipam": { "type": "host-local", "subnet": "10.22.0.0/24", "resolvConf": "/proc/version" } }',
    [],
  ],
  [
    "a plugin, and an IPAM plugin, that are not installed",
    '{ "type": "calico", "ipam": { "type": "whereabouts" } }',
    [
      '2:11 error plugin-missing: failed to find plugin "calico" in path [BIN]: "type" names it: install the plugin there, or add its directory to CNI_PATH',
      '2:39 error plugin-missing: failed to find plugin "whereabouts" in path [BIN]: "type" names it: install the plugin there, or add its directory to CNI_PATH',
    ],
  ],
  ["a plugin without a type", '{ "bridge": "cni0" }', ['2:1 error missing-key: "type" is missing: expected a text']],
  [
    "a plugin that does not speak the version",
    '{ "type": "elder" },\n{ "type": "elder" }',
    [
      '2:11 error plugin-version: the installed "elder" does not speak 1.1.0 = it speaks 0.3.1, 0.4.0',
      '3:11 error plugin-version: the installed "elder" does not speak 1.1.0 = it speaks 0.3.1, 0.4.0',
    ],
  ],
])("%s", async (_, plugin, expected) => {
  expect(await found(plugin)).toEqual(expected)
})

test("without a FILE it is the directory of the node, which is looked at, too", async () => {
  const { exitCode, stdout } = await node.tool.run(["lint"])
  expect(exitCode).toBe(0)
  expect(stdout).toEndWith(
    '/29"}]]}}]}\n      |                    ^^^^^^^^^^^^^^\n      = a /24 has 253\n1 file: 1 warning\n',
  )
  await writeFile(
    node.scratch.join("net.d/50-x.conflist"),
    '{ "cniVersion": "1.1.0", "name": "x", "plugins": [{ "type": "calico" }] }',
  )
  const missing = await node.tool.run(["lint"])
  expect([missing.exitCode, missing.stdout.includes("[plugin-missing]")]).toEqual([3, true])
})
