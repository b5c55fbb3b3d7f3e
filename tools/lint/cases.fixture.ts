import type { Rule } from "./rules.ts"

/**
 * Files with a fault that a rule must find. The mark "«", which is removed from the file, shows the position of the
 * fault. Without a mark, the fault is at the beginning of the first file.
 */
export interface Case {
  readonly rule: Rule
  readonly what: string
  readonly files: Readonly<Record<string, string>>
  /** Whether the case needs a node, which `integration/cni/lint.test.ts` creates. */
  readonly onNode?: true
  readonly serviceRange?: string
}

function list(...plugins: string[]): string {
  return `{
  "cniVersion": "1.1.0",
  "name": "net",
  "plugins": [
    ${plugins.join(",\n    ")}
  ]
}
`
}

const ipam = (...ranges: string[]) => `"ipam": { "type": "host-local", "ranges": [${ranges.join(", ")}] }`
const pool = ipam('[{ "subnet": "10.22.0.0/24" }]')
const bridge = `{ "type": "bridge", ${pool} }`
const oneFile = (rule: Rule, what: string, text: string): Case => ({ rule, what, files: { "10-net.conflist": text } })
const onePlugin = (rule: Rule, what: string, keys: string): Case => oneFile(rule, what, list(`{ ${keys} }`))
const onNode = (rule: Rule, what: string, keys: string): Case => ({ ...onePlugin(rule, what, keys), onNode: true })
const other = (name: string, keys: string) => list(`{ ${keys} }`).replace('"net"', `"${name}"`)

/** At least one case for each rule. */
export const cases: readonly Case[] = [
  oneFile(
    "json-syntax",
    "a comma too many",
    '{ "cniVersion": "1.1.0", "name": "net", "plugins": [{ "type": "ptp" },«] }',
  ),
  oneFile("json-syntax", "a comment", '{\n  «// a comment\n  "name": "net"\n}'),
  onePlugin("duplicate-key", "a key twice", `"type": "bridge", "mtu": 1400, «"mtu": 1500, ${pool}`),
  onePlugin("duplicate-key", "a key in two letter cases", `"type": "bridge", "MTU": 1400, «"mtu": 1500, ${pool}`),
  onePlugin(
    "unknown-key",
    "a key of a plugin that is spelled wrong",
    `"type": "bridge", «"isDefaultGatway": true, ${pool}`,
  ),
  onePlugin(
    "unknown-key",
    "a key of a range",
    `"type": "bridge", ${ipam('[{ "subnet": "10.22.0.0/24", «"gatway": "10.22.0.9" }]')}`,
  ),
  onePlugin(
    "requested-address",
    "static with addresses by choice of the pod",
    `"type": "ptp", "capabilities": { "ips": «true }, "ipam": { "type": "static" }`,
  ),
  onePlugin("refused", "a plugin's name that leads out of the directory", `"type": «"../../evil"`),
  onePlugin("refused", "an IPAM plugin's name that does", `"type": "bridge", "ipam": { "type": «"../../evil" }`),
  onePlugin("refused", "a delegate's name that does", `"type": "flannel", "delegate": { "type": «"../evil" }`),
  onePlugin("unknown-key", "a key of another plugin", `"type": "ptp", «"vlan": 5, ${pool}`),
  oneFile("unknown-key", "a key of the list", list(bridge).replace('  "name"', '  «"disableChek": true,\n  "name"')),
  onePlugin(
    "unknown-key",
    "a key of flannel's delegate",
    '"type": "flannel", "delegate": { «"isDefaultGatway": true }',
  ),
  onePlugin("key-case", "another letter case", `"type": "bridge", «"isgateway": true, ${pool}`),
  onePlugin("wrong-value", "a text for a boolean", `"type": "bridge", "isGateway": «"yes", ${pool}`),
  onePlugin("wrong-value", "a name that is too long", `"type": "bridge", "bridge": «"much-too-long-a-name", ${pool}`),
  onePlugin(
    "wrong-value",
    "a range where a set of ranges is expected",
    `"type": "bridge", ${ipam('«{ "subnet": "10.22.0.0/24" }')}`,
  ),
  onePlugin(
    "wrong-value",
    "a choice that does not exist",
    `"type": "macvlan", "master": "eth0", "mode": «"bridged", ${pool}`,
  ),
  onePlugin("placeholder", "a master to fill in", `"type": "macvlan", "master": «"\${IFACE}", ${pool}`),
  oneFile("missing-key", "a list without a name", '«{ "cniVersion": "1.1.0", "plugins": [{ "type": "loopback" }] }'),
  oneFile("missing-key", "a plugin without a type", list('«{ "bridge": "cni0" }')),
  onePlugin(
    "refused",
    "keys that contradict each other",
    `"type": "bridge", "hairpinMode": true, "promiscMode": «true, ${pool}`,
  ),
  onePlugin("refused", "a plugin that needs addresses", '"type": «"ptp", "ipMasq": true'),
  onePlugin(
    "refused",
    "a VLAN that does not exist",
    `"type": "bridge", "vlan": 5000, «${pool}`.replace('"vlan": 5000, «"ipam": {', '"vlan": 5000, "ipam": «{'),
  ),
  onePlugin(
    "refused",
    "an address without a prefix",
    '"type": "bridge", "ipam": «{ "type": "static", "addresses": [{ "address": "10.0.0.2" }] }',
  ),
  oneFile("refused", "a name with a blank", list(bridge).replace('"net"', '«"my net"')),
  {
    rule: "wrong-extension",
    what: "a list in a .conf",
    files: { "10-net.conf": list(bridge).replace('"plugins"', '«"plugins"') },
  },
  oneFile(
    "wrong-extension",
    "one plugin in a .conflist",
    `{ "cniVersion": "1.1.0", "name": "net", «"type": "bridge", ${pool} }`,
  ),
  onePlugin(
    "reserved-key",
    "what the runtime hands over",
    `"type": "bridge", «"runtimeConfig": { "mac": "0a:00:00:00:00:01" }, ${pool}`,
  ),
  onePlugin("no-effect", "addresses of lo", `"type": "loopback", «${pool}`),
  onePlugin("no-effect", "a request beside cni", `"type": "bridge", "args": { «"ips": ["10.22.0.9"] }, ${pool}`),
  oneFile("unknown-version", "a version of the future", list(bridge).replace('"1.1.0"', '«"2.0.0"')),
  oneFile("missing-version", "no version", `«${list(bridge).replace('  "cniVersion": "1.1.0",\n', "")}`),
  oneFile("old-version", "a version without CHECK", list(bridge).replace('"1.1.0"', '«"0.3.1"')),
  oneFile(
    "chain-order",
    "portmap before the interface",
    list('{ "type": «"portmap", "capabilities": { "portMappings": true } }', bridge),
  ),
  oneFile("chain-order", "tuning alone", list('{ "type": «"tuning", "mtu": 1400 }')),
  oneFile("ipam-in-chain", "host-local in the chain", list(bridge, '{ "type": «"host-local" }')),
  oneFile("second-interface", "two interfaces of one name", list(bridge, `{ "type": «"ptp", ${pool} }`)),
  oneFile("missing-capability", "portmap that gets no ports", list(bridge, '{ "type": «"portmap" }')),
  onePlugin(
    "unused-capability",
    "portMappings of the bridge",
    `"type": "bridge", "capabilities": { «"portMappings": true }, ${pool}`,
  ),
  oneFile(
    "unused-capability",
    "a capability that is spelled wrong",
    list(bridge, '{ "type": "portmap", "capabilities": { "portMappings": true, «"portMapping": true } }'),
  ),
  onePlugin("shared-mac", "one MAC for all containers", `"type": "macvlan", «"mac": "0a:58:0a:01:02:03", ${pool}`),
  oneFile(
    "tuning-interface",
    "an interface by its name",
    list(bridge, '{ "type": "tuning", "sysctl": { «"net.ipv4.conf.net1.rp_filter": "2" } }'),
  ),
  onePlugin(
    "no-default-route",
    "masquerade without a way out",
    `"type": "bridge", "isGateway": true, «"ipMasq": true, ${pool}`,
  ),
  onePlugin("no-default-route", "ptp that masquerades, without a route", `"type": "ptp", «"ipMasq": true, ${pool}`),
  onePlugin("no-addresses", "a gateway without addresses", '"type": "bridge", «"isDefaultGateway": true, "ipam": {}'),
  onePlugin("no-addresses", "masquerade without addresses", '"type": "bridge", «"ipMasq": true'),
  oneFile(
    "no-gateway",
    "requested addresses and sbr",
    list(
      '{ "type": "macvlan", "master": "eth1", "capabilities": { "ips": true }, "ipam": { "type": "static" } }',
      '{ "type": «"sbr" }',
    ),
  ),
  oneFile(
    "unreachable-ports",
    "ports of ipvlan",
    list(
      '{ "type": "ipvlan", "master": "eth1", "ipam": { "type": "dhcp" } }',
      '{ "type": «"portmap", "capabilities": { "portMappings": true } }',
    ),
  ),
  onePlugin("one-per-node", "a VLAN", '"type": «"vlan", "master": "eth1", "vlanId": 5, "ipam": { "type": "dhcp" }'),
  onePlugin("shared-range", "macvlan with one range", `"type": "macvlan", ${ipam('[{ "subnet": «"10.22.0.0/24" }]')}`),
  onePlugin(
    "route-host-bits",
    "a destination that is an address",
    `"type": "bridge", "ipam": { "type": "host-local", "subnet": "10.22.0.0/24", "routes": [{ "dst": «"10.9.0.1/16" }] }`,
  ),
  onePlugin("bad-range", "host bits", `"type": "bridge", ${ipam('[{ "subnet": «"10.22.0.1/24" }]')}`),
  onePlugin(
    "bad-range",
    "a start outside",
    `"type": "bridge", ${ipam('[{ "subnet": "10.22.0.0/24", "rangeStart": «"10.23.0.5" }]')}`,
  ),
  onePlugin("bad-range", "a subnet that is too small", `"type": "bridge", ${ipam('[{ "subnet": «"10.22.0.0/31" }]')}`),
  onePlugin(
    "bad-range",
    "two families in a set",
    `"type": "bridge", "ipam": { "type": "host-local", "ranges": «[[{ "subnet": "10.22.0.0/24" }, { "subnet": "fd00::/64" }]] }`,
  ),
  onePlugin(
    "range-overlap",
    "two ranges with the same addresses",
    `"type": "bridge", ${ipam('[{ "subnet": "10.22.0.0/16" }]', '[«{ "subnet": "10.22.7.0/24" }]')}`,
  ),
  onePlugin(
    "range-overlap",
    "two ranges with one address in common",
    `"type": "bridge", ${ipam('[{ "subnet": "10.22.0.0/24", "rangeEnd": "10.22.0.100" }, «{ "subnet": "10.22.0.0/24", "rangeStart": "10.22.0.100" }]')}`,
  ),
  onePlugin("small-range", "five addresses", `"type": "bridge", ${ipam('[{ "subnet": «"10.22.0.0/29" }]')}`),
  onePlugin(
    "gateway-outside",
    "a gateway elsewhere",
    `"type": "bridge", ${ipam('[{ "subnet": "10.22.0.0/24", "gateway": «"10.23.0.1" }]')}`,
  ),
  onePlugin(
    "route-gateway",
    "a gateway that no range has",
    `"type": "bridge", "ipam": { "type": "host-local", "subnet": "10.22.0.0/24", "routes": [{ "dst": "0.0.0.0/0", "gw": «"10.23.0.1" }] }`,
  ),
  {
    rule: "network-overlap",
    what: "two networks with the same addresses on the host",
    files: {
      "20-b.conflist": other("b", `"type": "ptp", ${ipam('[{ "subnet": «"10.22.0.0/25" }]')}`),
      "10-a.conflist": other("a", `"type": "bridge", "isGateway": true, ${pool}`),
    },
  },
  {
    ...onePlugin(
      "service-overlap",
      "addresses of services",
      `"type": "bridge", ${ipam('[{ "subnet": «"10.96.7.0/24" }]')}`,
    ),
    serviceRange: "10.96.0.0/12",
  },
  {
    rule: "file-order",
    what: "two networks, of which pods get one",
    files: {
      "10-a.conflist": `«${other("a", `"type": "bridge", ${pool}`)}`,
      "20-b.conflist": other("b", '"type": "loopback"'),
    },
  },
  {
    rule: "shadowed-network",
    what: "one name in two files",
    files: {
      "20-b.conflist": other("net", '"type": "loopback"').replace('"net"', '«"net"'),
      "10-a.conflist": list(bridge),
    },
  },
  {
    rule: "ignored-file",
    what: "a copy that a package manager has left",
    files: { "10-net.conflist.rpmsave": `«${list(bridge)}` },
  },
  onNode(
    "node-route",
    "a network that the node reaches otherwise",
    `"type": "bridge", ${ipam('[{ "subnet": «"192.168.77.0/24" }]')}`,
  ),
  onNode(
    "advertised-route",
    "a gateway on a host whose route routers advertise",
    `"type": "bridge", "isGateway": true, ${ipam('[{ "subnet": «"fd00:22::/64" }]')}`,
  ),
  onNode("plugin-missing", "a plugin that is not installed", '"type": «"calico"'),
  onNode("plugin-version", "a plugin of a year ago", '"type": «"elder"'),
  onNode("no-master", "a master that does not exist", `"type": "macvlan", "master": «"eth7", ${pool}`),
  onNode("master-mtu", "more than the master's MTU", `"type": "macvlan", "master": "uplink", "mtu": «9000, ${pool}`),
  onNode(
    "no-resolv-conf",
    "a file that does not exist",
    `"type": "bridge", "ipam": { "type": "host-local", "subnet": "10.22.0.0/24", "resolvConf": «"/does/not/exist" }`,
  ),
]

/** Returns the files without the mark, and the position of the mark. */
export function placed({ files }: Case): { files: Record<string, string>; file: string; line: number; column: number } {
  const [file, marked] = Object.entries(files).find(([, text]) => text.includes("«")) ?? ["", ""]
  const before = marked.slice(0, marked.indexOf("«"))
  const lines = before.split("\n")
  const plain = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, text.replace("«", "")]))
  return { files: plain, file, line: lines.length, column: [...(lines.at(-1) ?? "")].length + 1 }
}
