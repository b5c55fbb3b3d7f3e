import { expect, test } from "bun:test"
import { cni } from "../../cmd/cni/main.ts"
import { report, summary } from "../doctor/mod.ts"
import { inputOf } from "../doctor/testing/inputs.ts"
import { recordingTerminal } from "../testing.ts"
import { looksFor } from "./known.ts"

async function explain(args: string[], stdin = "") {
  const terminal = recordingTerminal({}, false, { stdin: async () => stdin })
  return { code: await cni(["explain", ...args], terminal), out: terminal.out, err: terminal.err }
}
const TAKEN = `WHAT     a process of the host listens on the port to be published, or rootlessport holds it
DO       stop that process, or publish another port
LOOK     ss -tulpn
PAGE     docs/messages.md#words-of-any-program
`
const DIFFERENT = 'failed to set bridge addr: "cni0" already has an IP address different from 1'

// The texts are those of docs/messages.md, docs/errors.md and docs/lint.md, without Markdown markup.
test.each<[string, string[], string, string]>([
  [
    "a message",
    [DIFFERENT],
    "",
    `MESSAGE  ${DIFFERENT}
WHAT     the bridge has the gateway address of another subnet: the node's pod CIDR has changed, or two networks use one bridge
DO       delete the bridge when no pod of the old subnet is left: the next ADD creates it; or use another bridge, or forceAddress
LOOK     ip address show type bridge
         cni lint
PAGE     docs/messages.md#upstreams-interface-plugins
`,
  ],
  [
    "an error object, by the code in it",
    ['{"code":7,"msg":"Cannot use \\"vlan\\": expected a number, found \\"x\\""}'],
    "",
    `MESSAGE  Cannot use "vlan": expected a number, found "x"
CODE     7
WHAT     correct the key
LOOK     cni lint
PAGE     docs/errors.md#7-the-configuration
`,
  ],
  [
    "an error without a code, by that of the page",
    ["dummy interface requires an IPAM configuration"],
    "",
    `MESSAGE  dummy interface requires an IPAM configuration
CODE     7
WHAT     dummy: name an IPAM plugin by ipam.type
LOOK     cni lint
PAGE     docs/errors.md#7-the-configuration
`,
  ],
  [
    "a message with two parts that are known",
    ["no IP addresses available in range set: 1; no such thing: duplicate allocation is not allowed"],
    "",
    `MESSAGE  no IP addresses available in range set: 1; no such thing: duplicate allocation is not allowed
WHAT     every address of the range is reserved, often by deleted containers: after a crash or a reboot the runtime ran no DEL
DO       cni gc NETWORK --auto frees the addresses of deleted containers; use a larger range if all are in use
ALSO     the container has an address already: ADD was repeated, or an earlier ADD failed after this step: run DEL first, through the runtime or by cni del; if the container no longer exists, cni ipam release
LOOK     cni ipam ls
         ls /var/lib/cni/networks
PAGE     docs/messages.md#addresses
`,
  ],
  [
    "a log, each kind of message once",
    ["-"],
    `CNI a: bind: address already in use
nothing
plugin type="portmap" failed (add): bind: address already in use
CNI b: bind: address already in use
`,
    `MESSAGE  CNI a: bind: address already in use  (2 times)\n${TAKEN}\nMESSAGE  bind: address already in use\nPLUGIN   portmap, add\n${TAKEN}`,
  ],
  [
    "a rule of lint",
    ["shared-mac"],
    "",
    `shared-mac

Warning. A mac in the file is the MAC of every container of the network. Two interfaces with one MAC on one network disturb each other. One container alone is not affected.

docs/lint.md#shared-mac
`,
  ],
])("%s", async (_, args, stdin, out) => {
  expect(await explain(args, stdin)).toEqual({ code: 0, out, err: "" })
})

const PORTS = `WHAT     the rules of published ports are missing
WHY      packets to these ports of the host do not reach the container
OFTEN    a firewall's reload, nft flush ruleset
DO       cni reconcile, or cni reattach; for podman's containers podman network reload --all
LOOK     cni doctor
PAGE     docs/findings.md#the-packet-filter
`

test("a finding of doctor: what it is, why it matters, and what to do", async () => {
  expect(await explain(["missing-ports"])).toEqual({ code: 0, out: `FINDING  missing-ports\n${PORTS}`, err: "" })
  expect((await explain(["ERROR", "missing-ports"])).out).toBe(`FINDING  missing-ports\n${PORTS}`)
  const [first, ...more] = JSON.parse((await explain(["--json", "missing-ports"])).out)
  expect(more).toEqual([])
  expect(first).toEqual({
    finding: "missing-ports",
    count: 1,
    what: "the rules of published ports are missing",
    why: "packets to these ports of the host do not reach the container",
    causes: "a firewall's reload, nft flush ruleset",
    remedy: "cni reconcile, or cni reattach; for podman's containers podman network reload --all",
    page: "docs/findings.md#the-packet-filter",
  })
})

test("a name that doctor and lint share is explained as both", async () => {
  const { out } = await explain(["plugin-missing"])
  expect(out).toStartWith("FINDING  plugin-missing\nWHAT     a network names a plugin that is not installed\n")
  expect(out).toEndWith("\ndocs/lint.md#plugin-missing\n")
  expect(JSON.parse((await explain(["--json", "plugin-missing"])).out)).toMatchObject([
    { finding: "plugin-missing" },
    { headline: "plugin-missing" },
  ])
})

test("what doctor has printed is explained, each finding once, and what else is in the text", async () => {
  const findings = [
    { rule: "missing-ports", severity: "error", what: "cni plugin not initialized", why: "why", remedy: "sed" },
    {
      rule: "missing-ports",
      severity: "warning",
      what: "two",
      why: "why",
      remedy: "sed",
      note: "bind: address already in use",
    },
    { rule: "link-down", severity: "error", what: "three", why: "why", remedy: "sed" },
  ] as const
  const examination = { findings, input: inputOf() }
  const printed = `${report(examination, [], { columns: 40 })}${summary(examination, {})}`
  const names = ["FINDING  missing-ports  (2 times)", "FINDING  link-down"]
  const heads = (out: string) => out.split("\n").filter((line) => /^(FINDING|MESSAGE)/.test(line))
  for (const text of [printed, JSON.stringify({ findings }), JSON.stringify(findings)]) {
    expect(heads((await explain(["-"], text)).out)).toEqual(names)
    expect(heads((await explain([text])).out)).toEqual(names)
  }
  expect(heads((await explain(["-"], JSON.stringify(findings[2]))).out)).toEqual(["FINDING  link-down"])
  expect(heads((await explain(["-"], `${printed}cni plugin not initialized\n`)).out)).toEqual([
    ...names,
    "MESSAGE  cni plugin not initialized",
  ])
})

test.each([
  ["missing-port", "missing-ports"],
  ["WARNING missing_port", "missing-ports"],
  ["unkown-key", "unknown-key"],
])("%s: did you mean %s", async (asked, meant) => {
  expect(await explain([asked])).toEqual({
    code: 1,
    out: "",
    err: `cni explain: Cannot explain this: no known message matches; did you mean "${meant}"?\n`,
  })
})

test("a code, with its messages and what each means", async () => {
  const { code, out } = await explain(["5"])
  expect(code).toBe(0)
  expect(out).toStartWith(
    `5: input and output

  error reading from stdin: …
      stdin cannot be read, or has more than 16 MiB
  Cannot write the result to stdout
      the runtime has ended, or stdout is a file on a full disk. ADD is undone
`,
  )
  expect(out).toEndWith("install the wanted version from its archive\n\ndocs/errors.md#5-input-and-output\n")
})

test("for programs", async () => {
  const { out } = await explain(["--json", DIFFERENT])
  expect(JSON.parse(out)).toEqual([
    {
      message: DIFFERENT,
      count: 1,
      explanations: [
        {
          pattern: 'failed to set bridge addr: "…" already has an IP address different from …',
          what: "the bridge has the gateway address of another subnet: the node's pod CIDR has changed, or two networks use one bridge",
          remedy:
            "delete the bridge when no pod of the old subnet is left: the next ADD creates it; or use another bridge, or forceAddress",
          looks: ["ip address show type bridge", "cni lint"],
          page: "docs/messages.md#upstreams-interface-plugins",
        },
      ],
    },
  ])
  const section = JSON.parse((await explain(["--json", "shared-mac"])).out)
  expect(section).toEqual({
    headline: "shared-mac",
    page: "docs/lint.md#shared-mac",
    text: expect.stringMatching(/^Warning\. A `mac` in the file/),
  })
})

test.each([
  ["something", [], "no such thing"],
  ["a log that says nothing", ["-"], "all is well\n"],
  ["nothing", ["-"], ""],
])("of %s it is said that nothing is known", async (_, args, stdin) => {
  expect(await explain(args.length > 0 ? args : [stdin], stdin)).toEqual({
    code: 1,
    out: "",
    err: "cni explain: Cannot explain this: no known message matches\n",
  })
})

test("of an error that is not known, its code may be", async () => {
  expect((await explain(['{"code":11,"msg":"something"}'])).err).toBe(
    'cni explain: Cannot explain this: no known message matches. Code 11: try again: "cni explain 11" lists the messages of this code\n',
  )
  expect((await explain(["--json", '{"code":12345,"msg":"something"}'])).err).toEndWith("message matches\n")
})

test.each([
  ['failed to find plugin "…" in path', ["ls -l /opt/cni/bin", "cni lint"]],
  ['Cannot start plugin "…"', ["ls -l /opt/cni/bin", "cni lint"]],
  ['Cannot open netns "…"', ["findmnt -t nsfs", "ip netns"]],
  ['Cannot use "KEY": expected', ["cni lint"]],
  ["range set", ["cni lint"]],
  ["This plugin must be called as chained plugin", ["cni lint"]],
  ["failed to allocate", ["cni ipam ls"]],
  ["Cannot map ports", ["nft list table ip cni_hostports", "ss -tulpn"]],
  ["Cannot masquerade", ["nft list table ip cni_masquerade", "cni status NETWORK"]],
  ["Cannot guard port", ["nft list table bridge cni_spoofcheck"]],
  ["a VLAN", ["bridge vlan", "ip -d link show type bridge"]],
  ["a Bridge", ["ip -d link show type bridge", "bridge link"]],
  ["a master", ["ip -d link"]],
  ["a device", ["ip -d link", "ls -l /sys/bus/pci/devices"]],
  ["a Sysctl", ["ls -l /run/cni/tuning", "cat /etc/cni/tuning/allowlist.conf"]],
  ["forwarding", ["sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding", "findmnt /proc/sys"]],
  ["a cached result", ["ls -l /var/lib/cni/results", "df -h /var/lib/cni"]],
  ["Cannot lock x", ["cat /proc/locks", "ps -eo pid,etime,args"]],
  ["a tap", ["ls -l /dev/net/tun", "cni status NETWORK"]],
  ["Check of x", ["cni diff NETWORK CONTAINER"]],
  ["it already exists", ["cni ipam ls", "ls /var/lib/cni/results"]],
  ["nothing", []],
  ["a VLAN of a master of a device", ["bridge vlan", "ip -d link show type bridge", "ip -d link"]],
])("where to look for: %s", (message, commands) => {
  expect(looksFor(message)).toEqual(commands)
})
