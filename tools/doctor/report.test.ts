import { expect, test } from "bun:test"
import type { Finding } from "./finding.ts"
import { affectedBy, bridgeOf, bridgesOf, containerLinks, nameOf, readSysctl } from "./finding.ts"
import { inOneLine, sh } from "./remedy.ts"
import { asJson, report, summary } from "./report.ts"
import { attachmentOf, inputOf, linkOf, memberOf } from "./testing/inputs.ts"

const finding = (more: Partial<Finding> = {}): Finding => ({
  rule: "link-down",
  severity: "error",
  what: 'interface "cni0" is down',
  why: "no packet passes it",
  remedy: "ip link set cni0 up",
  ...more,
})
const warning = finding({ severity: "warning", rule: "no-nftables" })
const examination = (findings: Finding[], count = 1) => ({
  findings,
  input: inputOf({ attachments: Array.from({ length: count }, () => attachmentOf()) }),
})
const rules = ["ip nat POSTROUTING", "ip nat POSTROUTING", "ip cni_masquerade containers"].map(
  (place) => ({ place, backend: "iptables", owner: "" }) as const,
)
const deletion = { orphan: attachmentOf({ ifName: "", rules }), network: undefined, stores: [] }

test("a report has what was found with its reason and its remedy, what is mended, and how many there are", () => {
  expect(
    report(examination([finding(), warning]), [deletion, { ...deletion, orphan: attachmentOf(), stores: ["/x"] }], {}),
  ).toBe(
    `ERROR link-down
  interface "cni0" is down
  why: no packet passes it
  do: ip link set cni0 up

WARNING no-nftables
  interface "cni0" is down
  why: no packet passes it
  do: ip link set cni0 up

Fixing: delete the rules in ip nat POSTROUTING, ip cni_masquerade containers of pods/c1 (the rules do not name an interface for a DEL)
Fixing: release the lease of pods/c1/eth0 (its network no longer has a configuration for a DEL)

`,
  )
})

test("of many objects three are named, and a long command is told to be there, unless all is asked for", () => {
  const names = Array.from({ length: 250 }, (_, at) => `veth${at}`)
  const many = finding({
    affected: names.map((name) => ({ name: `"${name}"` })),
    ofMany: (count) => `${count} interfaces are down`,
    remedy: inOneLine(names.map((name) => sh`ip link set ${name} up`)),
    note: "they may be slow",
  })
  expect(report(examination([many]), [], { columns: 60 })).toBe(`ERROR link-down
  250 interfaces are down: "veth0", "veth1", "veth2" and 247
  more
  why: no packet passes it
  do: a command for all of them, which cni doctor --all
  prints below link-down
  note: they may be slow

`)
  const whole = report(examination([many]), [], { columns: 60 }, true)
  expect(whole).toContain('"veth249"')
  const command = whole.slice(whole.indexOf("do: ") + 4, whole.indexOf("\n  note"))
  const echoed = Bun.spawnSync(["sh", "-c", command.replace("do ip", "do echo ip")]).stdout.toString()
  expect(echoed).toBe(names.map((name) => `ip link set ${name} up\n`).join(""))
  expect(Math.max(...whole.split("\n").map((line) => line.length))).toBeLessThanOrEqual(60)
})

test.each([
  [[], 0, "\x1b[32m0 errors, 0 warnings, 0 attachments looked at\x1b[0m\n"],
  [[warning, warning], 2, "\x1b[33m0 errors, 2 warnings, 2 attachments looked at\x1b[0m\n"],
  [[warning], 3, "\x1b[33m0 errors, 1 warning, 3 attachments looked at\x1b[0m\n"],
  [[finding(), warning, finding()], 1, "\x1b[31;1m2 errors, 1 warning, 1 attachment looked at\x1b[0m\n"],
])("the sum of %j and %d attachments is in a colour of its own", (findings, attachments, sum) => {
  const screen = { colour: true }
  const text = report(examination(findings, attachments), [], screen)
  expect(summary(examination(findings, attachments), screen)).toBe(sum)
  expect(text.startsWith(`\x1b[31;1mERROR\x1b[0m \x1b[1mlink-down\x1b[0m\n`)).toBe(findings[0]?.severity === "error")
  expect(text.startsWith(`\x1b[33mWARNING\x1b[0m \x1b[1mno-nftables\x1b[0m\n`)).toBe(
    findings[0]?.severity === "warning",
  )
})

test("for programs it has the same, every object that is affected, and what can be fixed and pasted", () => {
  const pod = { namespace: "shop", name: "web" }
  const affected = [{ name: '"cni0"' }, { ...affectedBy(attachmentOf({ pod })), detail: "port 80/tcp" }]
  const findings = [
    finding({ network: "pods", remedy: sh`ip link set ${"a b"} up`, note: "or restart it" }),
    finding({ ...warning, isFixable: true, affected }),
  ]
  const printed = { what: 'interface "cni0" is down', why: "no packet passes it", remedy: "ip link set cni0 up" }
  const words = { ...printed, what: `${printed.what}; and 1 more: "pods/c1/eth0" (pod shop/web): port 80/tcp` }
  const ofPod = { network: "pods", containerId: "c1", ifName: "eth0", pod }
  expect(asJson(examination(findings), [deletion])).toStrictEqual({
    findings: [
      {
        rule: "link-down",
        severity: "error",
        network: "pods",
        ...printed,
        remedy: "ip link set 'a b' up",
        pasteable: true,
        note: "or restart it",
        fixable: false,
        affected: [],
      },
      {
        rule: "no-nftables",
        severity: "warning",
        ...words,
        pasteable: false,
        fixable: true,
        affected: [{ name: '"cni0"' }, { name: '"pods/c1/eth0" (pod shop/web)', detail: "port 80/tcp", ...ofPod }],
      },
    ],
    fixes: [
      "delete the rules in ip nat POSTROUTING, ip cni_masquerade containers of pods/c1 (the rules do not name an interface for a DEL)",
    ],
  })
  expect(asJson(examination([]))).toEqual({ findings: [] })
  expect(asJson(examination([]), [], ["Cannot"])).toEqual({ findings: [], failures: ["Cannot"] })
  const fixed = summary(examination([]), {}, 2)
  expect(fixed).toBe("0 errors, 0 warnings, 1 attachment looked at, after 2 deletions\n")
})

test("the bridges of a node are those that configurations name, each once", () => {
  const names = [{ bridge: "br7" }, {}, { bridge: "" }, { bridge: 5 }, { bridge: "br7" }]
  const members = [
    ...names.map((keys) => memberOf({ type: "bridge", ...keys })),
    memberOf({ type: "ptp", bridge: "br8" }),
  ]
  expect(members.map(bridgeOf)).toEqual(["br7", "cni0", "cni0", "cni0", "br7", undefined])
  expect(bridgesOf(inputOf({ members }))).toEqual(["br7", "cni0"])
})

test("packets of containers come by bridges that are there, and by ends of pairs on the host", () => {
  const inside = { nsid: 1 }
  const links = [linkOf(1, "cni0"), linkOf(2, "br7", inside), linkOf(3, "eth0")]
  const members = [memberOf({ type: "bridge" }), memberOf({ type: "bridge", bridge: "br7" })]
  const ends = [linkOf(4, "veth1"), linkOf(5, "eth0", inside), linkOf(1, "cni0")].map((link) => attachmentOf({ link }))
  expect(containerLinks(inputOf({ links, members, attachments: [...ends, attachmentOf()] }))).toEqual(["cni0", "veth1"])
})

test("messages name an attachment, and its pod where it is one's", () => {
  expect(nameOf(attachmentOf())).toBe('"pods/c1/eth0"')
  expect(nameOf(attachmentOf({ pod: { namespace: "shop", name: "web" } }))).toBe('"pods/c1/eth0" (pod shop/web)')
})

test("a value of the kernel's is there without its line's end, and a missing one is undefined", () => {
  expect(readSysctl("kernel/ostype")).toBe("Linux")
  expect(readSysctl("net/not/there")).toBeUndefined()
})
