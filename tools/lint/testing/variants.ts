/** Edge cases besides `cases.fixture.ts`. `variants.txt` has lint's findings; without findings, a file is correct. */
type Files = Readonly<Record<string, string>>

const inList = (keys: string, ...plugins: string[]): Files => ({
  "10-net.conflist": `{ ${keys}"name": "net", "plugins": [\n${plugins.join(",\n")}\n] }\n`,
})
const VERSION = '"cniVersion": "1.1.0", '
const list = (...plugins: string[]): Files => inList(VERSION, ...plugins)
const hostLocal = (keys: string) => `"ipam": { "type": "host-local", ${keys} }`
const ranges = (...sets: string[]) => hostLocal(`"ranges": [${sets.map((set) => `[${set}]`).join(", ")}]`)
const pool = ranges('{ "subnet": "10.22.0.0/24" }')
const bridge = (keys = "") => `{ "type": "bridge", ${keys}${pool} }`
const withIpam = (ipam: string) => list(`{ "type": "bridge", ${ipam} }`)
const network = (name: string, plugin: string) => `{ ${VERSION}"name": "${name}", "plugins": [\n${plugin}\n] }\n`

export const variants: Readonly<Record<string, Files>> = {
  // texts
  "a list that is not an object": { "10-net.conflist": "[]" },
  "a list that is empty": { "10-net.conflist": "" },
  "a byte order mark": { "10-net.conflist": `\ufeff${network("net", bridge())}` },
  "a text without an end": { "10-net.conflist": '{ "name": "net' },
  "a comma too many in an object": { "10-net.conflist": '{ "name": "net", }' },
  "one plugin in a .conf, with the keys of a list": {
    "10-net.conf": `{ ${VERSION}"name": "net", "disableCheck": true, "type": "bridge", ${pool} }`,
  },
  "one plugin in a .json": { "10-net.json": `{ ${VERSION}"name": "net", "nmae": 1, "type": "loopback" }` },
  "a list without plugins and type": { "10-net.conflist": `{ ${VERSION}"name": "net" }` },
  "no list, and plugins elsewhere": {
    "10-net.conflist": `{ ${VERSION}"name": "net" }`,
    "net/10-x.conf": '{ "type": "loopback" }',
  },
  "no plugins in a list": list(),
  "plugins that are no list": { "10-net.conflist": `{ ${VERSION}"name": "net", "plugins": {} }` },
  "plugins that are not objects": list('"bridge"'),

  // names and versions
  "a malformed name": { "10-net.conflist": network("-net", bridge()) },
  "a version that is not a string": inList('"cniVersion": 1, ', bridge()),
  "versions to choose from, the best of which counts": inList(
    '"cniVersions": ["0.4.0", "1.1.0", "9.9.9", "0.3.1"], ',
    bridge(),
  ),
  "versions to choose from that no plugin speaks": inList('"cniVersions": ["9.9.9", 5], ', bridge()),
  "versions to choose from without STATUS and GC": inList(
    '"cniVersion": "0.3.1", "cniVersions": ["0.4.0"], ',
    bridge(),
  ),
  "a version with CHECK": inList('"cniVersion": "0.4.0", ', bridge()),
  "a version that a plugin does not speak": inList(
    '"cniVersion": "0.1.0", ',
    bridge(),
    '{ "type": "tuning" }',
    '{ "type": "vrf" }',
  ),

  // keys
  "a key of nothing": list(bridge('"nothing": 1, ')),
  "keys in another case, below others": list(bridge('"DNS": { "NameServers": [] }, ')),
  "keys twice below others": list(bridge('"dns": { "domain": "a", "domain": "b" }, "args": [{ "x": 1, "X": 2 }], ')),
  "keys that other programs read": list(bridge('"x-note": 1, "X-Note": 2, "#": 1, "//": 2, "$id": 3, "a_b": 4, ')),
  "keys of programs beside those of plugins": list(
    bridge('"args": { "cin": {}, "labels": {}, "cni": { "ipz": 1, "podman": 2 } }, '),
  ),
  "capabilities that are not booleans": list(bridge('"capabilities": { "mac": "yes", "ips": null }, ')),
  "a value that is null": list(bridge('"mtu": null, "vlanTrunk": [null], ')),
  "null within a list": list(bridge('"dns": { "nameservers": ["10.0.0.1", null] }, ')),
  "a list for an object": list(bridge('"dns": [1], ')),
  "a text for an object": list(bridge('"dns": "10.0.0.1", ')),
  "a key that is missing below others": withIpam(
    hostLocal('"subnet": "10.22.0.0/24", "routes": [{ "gw": "10.22.0.1" }, { "dst": "0.0.0.0/0" }]'),
  ),
  "a key of another suite's plugin in another case": list(
    '{ "type": "other", "CNIVersion": "1.1.0", "capabilitis": {} }',
  ),
  "keys of IPAM below a chained plugin": list(
    bridge(),
    '{ "type": "tuning", "ipam": { "type": "host-local", "subnet": 5 } }',
  ),
  "a delegate of another kind": list(
    '{ "type": "flannel", "delegate": { "type": "macvlan", "isGateway": true, "mode": "x" } }',
  ),
  "a delegate of another suite": list('{ "type": "flannel", "delegate": { "type": "other", "x": 1 } }'),

  // values that parsers reject
  "a list of VLANs that ends before it begins": list(bridge('"vlanTrunk": [{ "minID": 5, "maxID": 1 }], ')),
  "an IPAM plugin's refusal": list(
    '{ "type": "macvlan", "master": "eth0", "ipam": { "type": "static", "addresses": [{ "address": "x" }] } }',
  ),

  // the chain
  "a key that plugins hand over": list(bridge('"cni.dev/attachments": [], "prevResult": {}, ')),
  "an interface that joins another": list(
    bridge(),
    '{ "type": "vrf", "vrfname": "red" }',
    '{ "type": "macvlan", "master": "eth0" }',
  ),
  "three interfaces": list(bridge(), `{ "type": "ptp", ${pool} }`, '{ "type": "dummy", "ipam": {} }'),
  "chained ones alone": list('{ "type": "firewall" }', '{ "type": "bandwidth" }'),
  "capabilities that several take": list(
    '{ "type": "dummy", "capabilities": { "bandwidth": true, "mac": false, "ips": true } }',
  ),
  "a capability that no plugin takes": list(
    '{ "type": "loopback", "capabilities": { "wings": true } }',
    bridge('"capabilities": { "wings": true }, '),
  ),
  "a capability of the IPAM plugin": list(
    '{ "type": "bridge", "capabilities": { "ips": true, "ipRanges": true }, "ipam": { "type": "static" } }',
  ),
  "a capability that is switched off": list(
    bridge(),
    '{ "type": "portmap", "capabilities": { "portMappings": false } }',
  ),
  "MACs that are no text, or empty": list(
    '{ "type": "macvlan", "master": "eth0", "mac": "" }',
    '{ "type": "loopback", "mac": "x" }',
  ),
  "settings of an interface by name": list(
    bridge(),
    `{ "type": "tuning", "sysctl": {
      "net.ipv6.conf.eth0.accept_ra": "0", "net/ipv4/neigh/eth0/gc_stale_time": "1", "net.ipv4.conf.all.forwarding": "1",
      "net.ipv4.conf.default.forwarding": "1", "net.ipv4.conf.lo.forwarding": "1", "net.core.somaxconn": "1" } }`,
  ),
  "masquerade with a way out": list(bridge('"ipMasq": true, "isDefaultGateway": true, ')),
  "masquerade with a route": withIpam(
    `"ipMasq": true, ${hostLocal('"subnet": "10.22.0.0/24", "routes": [{ "dst": "0.0.0.0/0" }]')}`,
  ),
  "masquerade without addresses": list('{ "type": "bridge", "ipMasq": true }', '{ "type": "bridge", "ipMasq": false }'),

  // addresses
  "a range and ranges": withIpam(hostLocal('"subnet": "10.22.0.0/24", "ranges": [[{ "subnet": "10.23.0.0/24" }]]')),
  "an end outside": withIpam(ranges('{ "subnet": "10.22.0.0/24", "rangeEnd": "10.23.0.1" }')),
  "a start after the end": withIpam(
    ranges('{ "subnet": "10.22.0.0/24", "rangeStart": "10.22.0.9", "rangeEnd": "10.22.0.5" }'),
  ),
  "a malformed gateway": withIpam(ranges('{ "subnet": "10.22.0.0/24", "gateway": "x" }')),
  "a malformed subnet": withIpam(ranges('{ "subnet": "x" }')),
  "a range without a subnet": withIpam(ranges('{ "rangeStart": "10.22.0.9" }')),
  "six addresses, and five": withIpam(
    ranges(
      '{ "subnet": "10.22.0.0/24", "rangeEnd": "10.22.0.7" }',
      '{ "subnet": "10.23.0.0/24", "rangeEnd": "10.23.0.6" }',
    ),
  ),
  "no address": withIpam(ranges('{ "subnet": "10.22.0.0/24", "rangeStart": "10.22.0.1", "rangeEnd": "10.22.0.1" }')),
  "IPv6 ranges": withIpam(ranges('{ "subnet": "fd00::/64" }', '{ "subnet": "fd00:0:0:1::/64", "gateway": "fd00::1" }')),
  "ranges that touch": withIpam(
    ranges(
      '{ "subnet": "10.22.0.0/24", "rangeEnd": "10.22.0.99" }',
      '{ "subnet": "10.22.0.0/24", "rangeStart": "10.22.0.100" }',
    ),
  ),
  "routes by gateways": withIpam(
    hostLocal(
      '"ranges": [[{ "subnet": "10.22.0.0/24" }], [{ "subnet": "fd00::/64" }]], "routes": [{ "dst": "10.0.0.0/8", "gw": "10.22.0.9" }, { "dst": "::/0", "gw": "fd00::9" }, { "dst": "0.0.0.0/0" }, { "dst": "::/0", "gw": "fd01::9" }]',
    ),
  ),

  // several files
  "networks that share addresses, not on the host": {
    "10-a.conflist": network("a", bridge()),
    "20-b.conflist": network("b", bridge('"isGateway": true, ')),
    "30-c.conflist": network("c", '{ "type": "loopback" }'),
  },
  "networks that share addresses by the gateway that each has": {
    "10-a.conflist": network("a", bridge('"isDefaultGateway": true, ')),
    "20-b.conflist": network("b", `{ "type": "ptp", ${pool} }`),
  },
  "networks without a name": {
    "10-a.conflist": network("", bridge()),
    "20-b.conflist": network("", '{ "type": "loopback" }'),
  },
  "networks whose names are not directories, beside files": {
    "10-a.conflist": network("", bridge()),
    "30-c.conflist": network("net.d/more", bridge()),
    "net.d/more/40-d.conf": '{ "type": "tuning", "mtu": "big" }',
    "50-e.conf": '{ "type": "tuning", "mtu": "big" }',
  },
  "files that no runtime reads": {
    "10-net.conflist": network("net", bridge()),
    ...Object.fromEntries(
      [
        "10-net.conflist~",
        "10-net.conf.bak",
        "10-net.json-old",
        "10-net.yaml",
        "10-net.YML",
        "10-net.conflist5",
        "10-net.cfg",
      ].map((name) => [name, ""]),
    ),
    README: "",
    "10-net.conflists": "",
  },
  "plugins beside a list": {
    "10-net.conflist": `{ ${VERSION}"name": "net", "plugins": [${bridge()}] }`,
    "net/20-tuning.conf": '{ "type": "tuning", "mtu": "big", "mtu": 5 }',
    "net/10-x.conf": "{",
    "net/30-portmap.conf": '{ "type": "portmap" }',
    "net/40-other.txt": "{",
  },
  "plugins beside a list that reads none": {
    "10-net.conflist": `{ ${VERSION}"name": "net", "loadOnlyInlinedPlugins": true, "plugins": [${bridge()}] }`,
    "net/20-tuning.conf": '{ "type": "tuning", "mtu": "big" }',
  },
}
