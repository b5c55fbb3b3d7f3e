import { expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { TemporaryDirectory } from "../../integration/lab/mod.ts"
import { lint } from "./lint.ts"

/** A typical published configuration with lint's findings. The file is a list unless its extension differs. */
interface Row {
  readonly what: string
  readonly text: string
  /** The file's name, "10-net.conflist" by default. */
  readonly file?: string
  /** Severity, rule and marked text of each finding, and words of its message and hint. Empty for a correct file. */
  readonly says: readonly string[]
}

const list = (...plugins: string[]) => `{ "cniVersion": "1.1.0", "name": "k", "plugins": [\n${plugins.join(",\n")}\n] }`
const hostLocal = (keys: string) => `"ipam": { "type": "host-local", ${keys} }`
const pool = hostLocal('"subnet": "10.1.0.0/24"')
const bridge = (keys: string) => `{ "type": "bridge", ${keys} }`
const macvlan = `{ "type": "macvlan", "master": "eth1", "ipam": { "type": "dhcp" } }`
const portmap = '{ "type": "portmap", "capabilities": { "portMappings": true } }'
const yaml = (config: string, name = "lan") =>
  `apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: ${name}\nspec:\n  config: ${config}\n`
const inYaml = (config: string): Pick<Row, "file" | "text"> => ({ file: "net.yaml", text: yaml(config) })
const inJson = (object: object): Pick<Row, "file" | "text"> => ({
  file: "net.json",
  text: JSON.stringify({ kind: "NetworkAttachmentDefinition", metadata: { name: "lan" }, ...object }),
})

const rows: readonly Row[] = [
  // Plugins of other suites fill in keys of host-local.
  ...["usePodCidr", "usePodCIDR"].map((subnet) => ({
    what: `calico with the subnet ${subnet}`,
    text: list(`{ "type": "calico", ${hostLocal(`"subnet": "${subnet}"`)} }`),
    says: [],
  })),
  {
    what: "calico with ranges for two families",
    text: list(
      `{ "type": "calico", ${hostLocal('"ranges": [[{ "subnet": "usePodCidr" }], [{ "subnet": "usePodCidrIPv6" }]]')} }`,
      portmap,
    ),
    says: [],
  },
  {
    what: "the same of bridge",
    text: list(bridge(hostLocal('"subnet": "usePodCidr"'))),
    says: ['error bad-range «"usePodCidr"» "ipam.subnet" in network "k"'],
  },

  // These cases name the range and the network.
  {
    what: "a fault in the second set",
    text: list(
      bridge(
        hostLocal('"ranges": [[{ "subnet": "10.1.0.0/24" }], [{ "subnet": "fd00::/64", "rangeStart": "fd01::5" }]]'),
      ),
    ),
    says: ['error bad-range «"fd01::5"» "ipam.ranges[1][0].rangeStart" in network "k"'],
  },
  {
    what: "a fault in the old form",
    text: list(bridge(hostLocal('"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.300"'))),
    says: ['error bad-range «"10.1.0.300"» "ipam.rangeStart" in network "k"'],
  },
  {
    what: "no range",
    text: list(bridge('"ipam": { "type": "host-local" }')),
    says: ['error bad-range «{ "type": "host-local" }» "subnet", "ranges" or "rangesFile" to "ipam" of network "k"'],
  },
  {
    what: "no range in the file of kube-router",
    text: list(bridge('"bridge": "kube-bridge", "isDefaultGateway": true, "ipam": { "type": "host-local" }')),
    says: ['info bad-range «{ "type": "host-local" }» the agent of kube-router writes them'],
  },
  {
    what: "ranges of the runtime",
    text: list(bridge('"capabilities": { "ipRanges": true }, "ipam": { "type": "host-local" }')),
    says: [],
  },

  // Versions.
  {
    what: "weave-net without a version",
    text: '{ "name": "weave", "plugins": [{ "type": "weave-net" }] }',
    says: ['warning missing-version «{» newest version that "weave-net" supports, at most "1.0.0"'],
  },
  {
    what: "calico and portmap of a year ago",
    text: list('{ "type": "calico" }', portmap).replace("1.1.0", "0.3.1"),
    says: [],
  },
  {
    what: "an IPAM plugin of another suite",
    text: list('{ "type": "macvlan", "master": "eth1", "ipam": { "type": "whereabouts" } }').replace("1.1.0", "0.3.1"),
    says: [],
  },
  {
    what: "flannel that delegates to another suite",
    text: list('{ "type": "flannel", "delegate": { "type": "calico" } }').replace("1.1.0", "0.3.1"),
    says: [],
  },
  {
    what: "a list of Multus 3",
    file: "00-multus.conf",
    text: '{ "cniVersion": "0.3.1", "name": "m", "type": "multus", "delegates": [{ "type": "bridge" }] }',
    says: [],
  },
  {
    what: "plugins of this suite without a version",
    text: list(bridge(pool)).replace('"cniVersion": "1.1.0", ', ""),
    says: ['warning missing-version «{» write "1.0.0", or "1.1.0" if the runtime'],
  },
  {
    what: "an attachment without a version",
    ...inYaml(`'{ "type": "macvlan", "master": "eth1", "ipam": { "type": "dhcp" } }'`),
    says: [`warning missing-version «{» "1.0.0" for Multus 4`],
  },
  {
    what: "an attachment of 0.3.1",
    ...inYaml(`'{ "cniVersion": "0.3.1", "type": "macvlan", "master": "eth1", "ipam": { "type": "dhcp" } }'`),
    says: [],
  },

  // NetworkAttachmentDefinitions.
  {
    what: "a block in YAML, with the object's name",
    ...inYaml(`|-\n    {\n      "cniVersion": "1.0.0",\n      "type": "bridge",\n      "mtu": "big"\n    }`),
    says: ['error wrong-value «"big"» Cannot use "mtu"'],
  },
  {
    what: "a folded block whose range is wrong",
    ...inYaml(`>\n    { "cniVersion": "1.0.0", "type": "bridge",\n      ${hostLocal('"subnet": "10.1.0.1/24"')} }`),
    says: ['error bad-range «"10.1.0.1/24"» "ipam.subnet" in network "lan"'],
  },
  {
    what: "double quotes in YAML",
    ...inYaml('"{ \\"cniVersion\\": \\"1.0.0\\", \\"type\\": \\"bridge\\", \\"mut\\": 1 }"'),
    says: ['warning unknown-key «\\"mut\\"» did you mean "mtu"'],
  },
  {
    what: "several documents, one of another kind",
    file: "all.yml",
    text: `kind: Pod\nmetadata:\n  name: web\n---\n${yaml('\'{ "cniVersion": "1.0.0", "type": "bridge" }\'')}---\n${yaml("'{'", "other")}`,
    says: [`error json-syntax «'» end of the text`],
  },
  {
    what: "a list in YAML, as kubectl prints it",
    file: "all.yaml",
    text: `apiVersion: v1\nitems:\n${["a", "b"]
      .map(
        (name) =>
          `- ${yaml(`|\n    { "cniVersion": "1.0.0", "type": "bridge", "mut": 1 }`, name).trimEnd().replaceAll("\n", "\n  ")}\n`,
      )
      .join("")}kind: List\n`,
    says: ['warning unknown-key «"mut"» did you mean "mtu"', 'warning unknown-key «"mut"» did you mean "mtu"'],
  },
  {
    what: "an object whose name is between braces",
    file: "net.yaml",
    text: yaml(`'{ "cniVersion": "1.0.0", "type": "bridge", "ipam": { "type": "host-local" } }'`).replace(
      "metadata:\n  name: lan",
      "metadata: { namespace: x, name: lan }",
    ),
    says: ['error bad-range «{ "type": "host-local" }» of network "lan"'],
  },
  {
    what: "an object in JSON",
    ...inJson({ spec: { config: '{\n"cniVersion": "1.0.0",\n"type": "bridge", "mtu": "big" }' } }),
    says: ['error wrong-value «\\"big\\"» Cannot use "mtu"'],
  },
  {
    what: "a list of objects in JSON",
    file: "net.json",
    text: `{ "kind": "List", "items": [{ "kind": "NetworkAttachmentDefinition", "metadata": { "name": "lan" }, "spec": { "config": "{}" } }] }`,
    says: ["error missing-key «{»", "warning missing-version «{»"],
  },
  {
    what: "an object without a configuration",
    ...inJson({ spec: {} }),
    says: ['info missing-key «"» Multus reads the network "lan" from a file of each node'],
  },
  {
    what: "a mapping where a text is expected",
    ...inYaml('{ "cniVersion": "1.0.0" }'),
    says: ['error wrong-value «{» "spec.config" is an object'],
  },
  {
    what: "a configuration of Multus by itself",
    file: "net.conf",
    text: '{ "cniVersion": "1.1.0", "type": "macvlan", "master": "eth1", "ipam": { "type": "dhcp" } }',
    says: ['info missing-key «{» "name" is missing Multus uses the name'],
  },
  {
    what: "loopback without a name",
    file: "99-loopback.conf",
    text: '{ "cniVersion": "1.1.0", "type": "loopback" }',
    says: ['info missing-key «{» set up "lo" without this file'],
  },
  {
    what: "host-local on a link that nodes share",
    ...inYaml(
      `'{ "cniVersion": "1.0.0", "type": "macvlan", "master": "eth1", ${hostLocal('"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.9"')} }'`,
    ),
    says: ['warning shared-range «"10.1.0.0/24"» each node assigns the same addresses of 10.1.0.0/24'],
  },
  {
    what: "one VLAN on all nodes",
    ...inYaml(`'{ "cniVersion": "1.0.0", "type": "vlan", "master": "eth1", "vlanId": 5, "ipam": { "type": "dhcp" } }'`),
    says: ['warning one-per-node «"vlan"»'],
  },
  {
    what: "eth0, which is net1 with Multus",
    ...inYaml(
      `'{ "cniVersion": "1.0.0", "plugins": [${macvlan}, { "type": "tuning", "sysctl": { "net.ipv4.conf.eth0.arp_filter": "1" } }] }'`,
    ),
    says: ['warning tuning-interface «"net.ipv4.conf.eth0.arp_filter» IFNAME'],
  },
  {
    what: "eth0, which other runtimes always use",
    text: list(bridge(pool), '{ "type": "tuning", "sysctl": { "net.ipv4.conf.eth0.arp_filter": "1" } }'),
    says: [],
  },

  {
    what: "YAML of another kind",
    file: "pod.yaml",
    text: "kind: Pod\n",
    says: ["error json-syntax «k» no NetworkAttachmentDefinition in this file"],
  },

  // Comments and placeholders.
  ...["#", "//", "/*"].map((mark) => ({
    what: `a comment with ${mark}`,
    text: `{\n  ${mark} a network\n  "name": "k" }`,
    says: [`error json-syntax «${mark.slice(0, 1)}» JSON has no comments`],
  })),
  // biome-ignore lint/suspicious/noTemplateCurlyInString: these are placeholders
  ...["${IFACE}", "<iface>", "__BRIDGE__", "%s", "$master", "{{ .Device }}", "${A_LONG_NAME_OF_IT}"].flatMap((word) =>
    (
      [
        ["macvlan", "master", '"ipam": { "type": "dhcp" }'],
        ["host-device", "device", ""],
        ["bridge", "bridge", pool],
      ] as const
    ).map(([type, key, more]) => ({
      what: `${word} as ${key}`,
      text: list(`{ "${key}": "${word}", "type": "${type}"${more === "" ? "" : `, ${more}`} }`),
      says: [`warning placeholder «"${word}"» was not filled in`],
    })),
  ),
  {
    what: "a placeholder as subnet",
    text: list(bridge(hostLocal('"subnet": "{{ .PodCIDR }}"'))),
    says: ['warning placeholder «"{{ .PodCIDR }}"» "{{ .PodCIDR }}"'],
  },
  {
    what: "a template as a number",
    text: list(bridge(`"mtu": {{ .MTU }}, ${pool}`)),
    says: ["error json-syntax «{» the placeholder of a template was not filled in"],
  },
  {
    what: "a placeholder as a number",
    text: list(bridge(`"mtu": __MTU__, ${pool}`)),
    says: ["error json-syntax «_» the placeholder __MTU__ was not filled in"],
  },

  // Faults that no plugin reports.
  { what: "ports of macvlan", text: list(macvlan, portmap), says: ['warning unreachable-ports «"portmap"»'] },
  { what: "ports of bridge", text: list(bridge(pool), portmap), says: [] },
  {
    what: "sbr without a gateway",
    text: list(
      '{ "type": "macvlan", "master": "eth1", "ipam": { "type": "static", "addresses": [{ "address": "10.1.0.9/24" }] } }',
      '{ "type": "sbr" }',
    ),
    says: ['warning no-gateway «"sbr"» "gateways" of sbr'],
  },
  {
    what: "sbr with gateways",
    text: list(
      '{ "type": "macvlan", "master": "eth1", "ipam": { "type": "static", "addresses": [{ "address": "10.1.0.9/24" }] } }',
      '{ "type": "sbr", "gateways": ["10.1.0.1"] }',
    ),
    says: [],
  },
  {
    what: "sbr with the gateway of an address",
    text: list(
      '{ "type": "macvlan", "master": "eth1", "ipam": { "type": "static", "addresses": [{ "address": "10.1.0.9/24", "gateway": "10.1.0.1" }] } }',
      '{ "type": "sbr" }',
    ),
    says: [],
  },
  {
    what: "a gateway and masquerade without addresses",
    text: list(bridge('"isDefaultGateway": true, "ipMasq": true')),
    says: ['warning no-addresses «"isDefaultGateway"» "isDefaultGateway" has no effect'],
  },
  {
    what: "the same with empty ipam",
    text: list(bridge('"isGateway": true, "ipam": {}')),
    says: ['warning no-addresses «"isGateway"» "isGateway"'],
  },
  { what: "a bridge without addresses", text: list(bridge('"ipam": {}')), says: [] },
  {
    what: "ptp without a route",
    text: list(`{ "type": "ptp", "ipMasq": true, ${pool} }`),
    says: ['warning no-default-route «"ipMasq"» write "routes": [{ "dst": "0.0.0.0/0" }]'],
  },
  {
    what: "ptp with a route",
    text: list(
      `{ "type": "ptp", "ipMasq": true, ${hostLocal('"subnet": "10.1.0.0/24", "routes": [{ "dst": "0.0.0.0/0" }]')} }`,
    ),
    says: [],
  },
  {
    what: "masquerade with the routes of a DHCP server",
    text: list(bridge('"ipMasq": true, "ipam": { "type": "dhcp" }')),
    says: [],
  },
  {
    what: "vlan in a file",
    text: list('{ "type": "vlan", "master": "eth1", "vlanId": 5, "ipam": { "type": "dhcp" } }'),
    says: ['info one-per-node «"vlan"»'],
  },
  {
    what: "host-local on a shared link in a file",
    text: list(`{ "type": "ipvlan", "master": "eth1", ${pool} }`),
    says: ['info shared-range «"10.1.0.0/24"»'],
  },
  {
    what: "a part of the shared range in a file, which may be of one node",
    text: list(
      `{ "type": "ipvlan", "master": "eth1", ${hostLocal('"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.99"')} }`,
    ),
    says: [],
  },
  { what: "loopback with ipam", text: list(`{ "type": "loopback", ${pool} }`), says: ['warning no-effect «"ipam"»'] },
  {
    what: "loopback with capabilities",
    text: list('{ "type": "loopback", "capabilities": { "portMappings": true } }'),
    says: ['warning unused-capability «"portMappings"»'],
  },
  {
    what: "args.ips",
    text: list(bridge(`"args": { "ips": ["10.1.0.9"] }, ${pool}`)),
    says: ['warning no-effect «"ips"» plugins read "args.cni.ips"'],
  },
  { what: "args.cni.ips", text: list(bridge(`"args": { "cni": { "ips": ["10.1.0.9"] } }, ${pool}`)), says: [] },
  {
    what: "a destination with host bits",
    text: list(bridge(hostLocal('"subnet": "1100:200::/24", "routes": [{ "dst": "1100:200::1/24" }]'))),
    says: ['warning route-host-bits «"1100:200::1/24"» the network address is 1100:200::/24'],
  },
]

async function findingsOf(file: string, text: string) {
  await using directory = await TemporaryDirectory.create()
  await Bun.write(directory.join(file), text)
  return (await lint(directory.join(file), { serviceRanges: [] })).findings
}

test.each(rows.map((row): [string, Row] => [row.what, row]))(
  "%s",
  async (_, { file = "10-net.conflist", text, says }) => {
    const found = await findingsOf(file, text)
    const shown = found.map(({ severity, line, column, endColumn, rule, message, hint = "" }, index) => {
      const marked = [...(text.split("\n")[line - 1] ?? "")].slice(column - 1, endColumn - 1).join("")
      const [head, words] = [`${severity} ${rule} «${marked.slice(0, 30)}»`, `${message} ${hint}`]
      const expected = says[index] ?? ""
      return expected.startsWith(head) && words.includes(expected.slice(head.length).trim())
        ? expected
        : `${head} ${words}`
    })
    expect(shown).toEqual([...says])
  },
)

test("manifests in a directory are read as files, and other YAML is ignored by runtimes", async () => {
  await using directory = await TemporaryDirectory.create()
  await Bun.write(directory.join("10-k.conflist"), list(bridge(pool)))
  await Bun.write(directory.join("lan.yaml"), yaml(`'{ "cniVersion": "1.0.0", "type": "bridge", "mut": 1 }'`))
  await Bun.write(directory.join("pod.yaml"), "kind: Pod\n")
  const { findings } = await lint(directory.path, { serviceRanges: [] })
  expect(findings.map(({ rule }) => rule)).toEqual(["unknown-key", "ignored-file"])
})

const root = join(import.meta.dir, "../..")
const pages = [
  "README.md",
  ...["docs", "plugins", "ipam", "meta", "examples"].flatMap((room) =>
    readdirSync(join(root, room), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".md"))
      .map((name) => join(room, name)),
  ),
]

test("the networks of this project's pages have no errors and no warnings", async () => {
  let count = 0
  for (const page of pages) {
    for (const [, text = ""] of readFileSync(join(root, page), "utf8").matchAll(/^```json\n(\{.*?)^```/gms)) {
      if (!/"(plugins|type)"/.test(text) || !/"name"/.test(text)) continue
      const file = /"plugins"/.test(text) ? "10-net.conflist" : "10-net.conf"
      const found = await findingsOf(file, text)
      const wrong = found.filter(({ severity }) => severity !== "info").map(({ rule, message }) => `${rule} ${message}`)
      expect([page, ...wrong]).toEqual([page])
      count++
    }
  }
  expect(count).toBeGreaterThan(12)
})
