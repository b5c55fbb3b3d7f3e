import { describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { cni } from "../../cmd/cni/main.ts"
import { Code } from "../../pkg/types/mod.ts"
import { findingNames } from "../doctor/mod.ts"
import { ruleNames } from "../lint/mod.ts"
import { recordingTerminal } from "../testing.ts"
import { explain, explainLog, readError } from "./explain.ts"
import { knownFindings } from "./findings.ts"
import { knownMessages, sectionOfCode, sectionOfRule } from "./known.ts"

const root = join(import.meta.dir, "../..")
const known = knownMessages()

async function say(args: string[], stdin = "") {
  const terminal = recordingTerminal({}, false, { stdin: async () => stdin })
  return { code: await cni(["explain", ...args], terminal), out: terminal.out, err: terminal.err }
}

const kubelet = `Nov 22 12:00:01 n1 kubelet[871]: E1122 12:00:01.5 871 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \\"CreatePodSandbox\\" for \\"web-0_default(b1)\\" with CreatePodSandboxError: \\"Failed to create sandbox for pod \\\\\\"web-0\\\\\\": rpc error: code = Unknown desc = failed to setup network for sandbox \\\\\\"4e5f6a\\\\\\": plugin type=\\\\\\"bridge\\\\\\" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.22.0.1-10.22.0.254\\"" pod="default/web-0" podUID="b1"`

describe("takes the plugin's words out of what is around them", () => {
  test("a line of kubelet, whose quotes are escaped twice", () => {
    expect(readError(kubelet)).toEqual({
      message: "failed to allocate for range 0: no IP addresses available in range set: 10.22.0.1-10.22.0.254",
      plugin: "bridge",
      verb: "add",
      code: undefined,
    })
  })

  test("an error object, by itself and after other words", () => {
    const object = {
      cniVersion: "1.1.0",
      code: 7,
      msg: 'Cannot use "mtu": expected a whole number',
      details: "see below",
    }
    const expected = {
      message: 'Cannot use "mtu": expected a whole number; see below',
      plugin: undefined,
      verb: undefined,
      code: 7,
    }
    expect(readError(JSON.stringify(object, undefined, 4))).toEqual(expected)
    expect(readError(`stdout: ${JSON.stringify(object)} exit 1`)).toEqual(expected)
  })

  test("the innermost of several plugins", () => {
    const text =
      'plugin type="multus" failed (add): [default/web]: plugin type="macvlan" failed (delete): Link not found'
    expect(readError(text)).toMatchObject({ plugin: "macvlan", verb: "delete", message: "Link not found" })
  })
})

const wellKnown: readonly (readonly [string, RegExp, string])[] = [
  ["cni plugin not initialized", /no network that it can use/, "cni lint"],
  ['failed to find plugin "bridge" in path [/opt/cni/bin]', /not in the runtime's directories/, "cni lint"],
  ["netplugin failed with no error message: signal: killed", /was killed/, "dmesg"],
  [
    "failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.6",
    /every address of the range/,
    "cni ipam ls",
  ],
  [
    "failed to allocate for range 0: 10.0.0.5 has been allocated to c1, duplicate allocation is not allowed",
    /has an address already/,
    "cni ipam ls",
  ],
  [
    'failed to set bridge addr: "cni0" already has an IP address different from 10.1.0.1/24',
    /another subnet/,
    "ip address show type bridge",
  ],
  ['failed to lookup "eth7": Link not found', /not on this node/, "ip link"],
  [
    'failed to locate iptables: exec: "iptables": executable file not found in $PATH',
    /not installed/,
    "iptables --version",
  ],
  [
    "error dialing DHCP daemon: dial unix /run/cni/dhcp.sock: connect: no such file or directory",
    /daemon that is not running/,
    "systemctl status cni-dhcp.socket",
  ],
  ["open /run/flannel/subnet.env: no such file or directory", /flanneld has not started/, "ls -l /run/flannel"],
  ["unexpected end of JSON input", /printed nothing/, "find /var/lib/cni -size 0"],
  ['failed to Statfs "/proc/7/ns/net": no such file or directory', /namespace no longer exists/, "findmnt -t nsfs"],
  [
    "Cannot map host port 8080/tcp to 10.0.0.2:80: it is mapped to 10.0.0.9:80 for lab/c9/eth0",
    /belongs to the attachment/,
    "nft list table ip cni_hostports",
  ],
]

test.each(wellKnown)("explains: %s", (message, what, look) => {
  const [best] = explain(`Failed to create pod sandbox: plugin type="bridge" failed (add): ${message}`).known
  expect(best?.what).toMatch(what)
  expect(best?.looks).toContain(look)
})

test("every message of both pages is explained, by its own row or one that says more", () => {
  expect(known.length).toBeGreaterThan(200)
  const wrong = known.filter(({ pattern, what, weight }) => {
    const [best] = explain(`plugin type="bridge" failed (add): ${pattern.replaceAll(/…|KEY/g, "zz1")}`, known).known
    return best === undefined || (best.what !== what && best.weight < weight && best.remedy === undefined)
  })
  expect(wrong.map(({ pattern }) => pattern)).toEqual([])
})

test("every page that is named is there, with its headline", async () => {
  const missing: string[] = []
  for (const page of new Set(known.map((one) => one.page))) {
    const [file = "", anchor = ""] = page.split("#")
    const headlines = existsSync(join(root, file))
      ? [...(await Bun.file(join(root, file)).text()).matchAll(/^#+ (.*)$/gm)]
      : []
    const anchors = headlines.map(([, text = ""]) =>
      text
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    )
    if (!anchors.includes(anchor)) missing.push(page)
  }
  expect(missing).toEqual([])
})

test("what is known of other suites' messages has a remedy and a place to look", () => {
  const rows = known.filter(({ page }) => page.startsWith("docs/messages.md"))
  expect(rows.length).toBeGreaterThan(80)
  expect(rows.filter(({ remedy, looks }) => !remedy || looks.length === 0)).toEqual([])
})

test("every finding of doctor has one row, with what it is, why it matters, what it comes of and what to do", () => {
  const rows = knownFindings()
  expect([...rows.keys()]).toEqual([...findingNames])
  expect([...rows.values()].filter((row) => Object.values(row).some((text) => text === ""))).toEqual([])
  const page = readFileSync(join(root, "docs/findings.md"), "utf8")
  expect(page.match(/^\| `/gm)).toHaveLength(findingNames.length)
})

test("every code and every rule has its section", () => {
  expect(Object.values(Code).filter((code) => sectionOfCode(code) === undefined)).toEqual([])
  expect(ruleNames.filter((rule) => !sectionOfRule(rule)?.text)).toEqual([])
})

test("a log is explained once for each kind of message, in its order, and what says nothing is left out", () => {
  const log = [
    "Nov 22 12:00:00 n1 kubelet[871]: I1122 all is well",
    kubelet,
    kubelet.replaceAll("web-0", "web-1"),
    'Nov 22 12:00:03 n1 containerd[9]: level=error msg="plugin type=\\"portmap\\" failed (add): bind: address already in use"',
  ].join("\n")
  expect(explainLog(log).map(({ error, count }) => [error.plugin, count])).toEqual([
    ["bridge", 2],
    ["portmap", 1],
  ])
})

test("the command prints what, why and where to look; unknown errors are exit code 1, with what their code says", async () => {
  const piped = await say(["-"], kubelet)
  expect(piped).toMatchObject({ code: 0, err: "" })
  expect(piped.out).toStartWith("MESSAGE  failed to allocate for range 0: no IP addresses")
  expect(piped.out).toContain("\nPLUGIN   bridge, add\n")
  expect(piped.out).toContain("\nPAGE     docs/messages.md#addresses\n")
  expect(await say(["no", "such", "thing"])).toMatchObject({ code: 1, out: "" })
  expect((await say(['{"code":11,"msg":"something"}'])).err).toContain('Code 11: try again: "cni explain 11"')
  expect((await say(["11"])).out).toStartWith("11: try again\n")
  expect((await say(["chain-order"])).out).toContain("Required prevResult missing")
  const [first] = JSON.parse((await say(["--json", "cni plugin not initialized"])).out)
  expect(first).toMatchObject({
    message: "cni plugin not initialized",
    explanations: [{ page: "docs/messages.md#kubernetes-and-runtimes" }],
  })
})

describe("the row that says most comes first", () => {
  const row = (pattern: string, more: Partial<(typeof known)[number]> = {}) => ({
    pattern,
    matcher: new RegExp(pattern),
    literals: [pattern],
    weight: pattern.length,
    what: pattern,
    remedy: undefined,
    looks: [],
    page: "",
    code: undefined,
    ...more,
  })
  const found = (text: string, ...rows: ReturnType<typeof row>[]) => explain(text, rows).known.map(({ what }) => what)

  test("the longer pattern, and one with a remedy before one that is a little longer", () => {
    expect(found("a long message", row("a long"), row("a long message"))).toEqual(["a long message"])
    expect(found("a long message", row("a long message"), row("a long", { remedy: "x" }))).toEqual(["a long"])
    expect(
      found("a long message", row("a long message", { weight: 60 }), row("a long", { remedy: "x", weight: 14 })),
    ).toEqual(["a long message"])
    expect(
      found("a long message", row("a long message", { weight: 60 }), row("a long", { remedy: "x", weight: 16 })),
    ).toEqual(["a long"])
  })

  test("of an error object one that has its code, where the patterns are nearly as long", () => {
    const error = '{"code":7,"msg":"message"}'
    const [ofCode, other] = [
      row("mes", { code: 7, weight: 10 }),
      (weight: number) => row("message", { code: 11, weight }),
    ]
    expect(found(error, other(14), ofCode)).toEqual(["mes"])
    expect(found(error, other(16), ofCode)).toEqual(["message"])
    expect(found("message", other(14), ofCode)).toEqual(["message"])
    expect(found("message", other(11), row("mes", { weight: 10 }))).toEqual(["message"])
  })

  test("beside it one that is about another part of the message", () => {
    const [first, last] = [row("first", { weight: 20 }), row("last")]
    expect(found("first and last", last, first)).toEqual(["first", "last"])
    expect(found("last and first", last, first)).toEqual(["first", "last"])
    expect(found("firstlast", last, first)).toEqual(["first", "last"])
    expect(found("first", first, row("irst"), row("fir"))).toEqual(["first"])
    expect(found("first and last", first, last, row("and"))).toHaveLength(2)
    expect(found("first and last", first, row("last", { what: "first" }))).toEqual(["first"])
    expect(found("nothing", first)).toEqual([])
  })
})

test("a bridge with another address is explained by the code that it has, not by STATUS, which refers to it", () => {
  const [best] = explain('"cni0" already has an IP address different from 10.85.0.1/24').known
  expect(best?.code).toBe(999)
  expect(best?.what).toContain("forceAddress")
})

test("an error object over several lines is one error, also where nothing is known of it", () => {
  const object = (msg: string) => JSON.stringify({ code: 7, msg }, undefined, 2)
  expect(explainLog(object("cni plugin not initialized")).map(({ error }) => error.message)).toEqual([
    "cni plugin not initialized",
  ])
  expect(explainLog(object("x"))).toEqual([])
})

test("words of the log are not words of the message", () => {
  const words = (text: string) => readError(text).message
  expect(words('no room pod="a/b" podUID="c" logger="d" namespace="e" sandboxID="f"')).toBe("no room")
  expect(words('Cannot find ""')).toBe("Cannot find ")
  expect(words('"" is not a name')).toBe('"" is not a name')
  expect(words('no room"')).toBe("no room")
  expect(words('the "room"')).toBe('the "room"')
  expect(words("{}")).toBe("{}")
})
