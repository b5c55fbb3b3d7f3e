import { describe, expect, test } from "bun:test"
import { knownPlugins } from "../../tools/configuration/mod.ts"
import { agentTool } from "../agent/main.ts"
import { cniTool } from "../cni/main.ts"
import { fromMarkdown } from "./from-markdown.ts"
import { manualPages } from "./pages.ts"
import { inline, literal } from "./roff.ts"

const pages = manualPages()

const tools = [cniTool, agentTool]

/** The manual page of each command, with the command and its tool. */
const own = tools.flatMap(({ name: tool, commands }) =>
  Object.entries(commands).map(([name, command]) => [`${tool}-${name.replaceAll(" ", "-")}`, command, tool] as const),
)

/** Returns the text of a page without markup. */
function wordsOf(page: string): string {
  return page
    .replace(/\\f[BR]/g, "")
    .replaceAll("\\-", "-")
    .replace(/\\\[u([0-9A-F]+)\]/g, (_, code) => String.fromCodePoint(Number.parseInt(code, 16)))
    .replaceAll("\\&", "")
}

test("there is a page for the tool, every command and every plugin", () => {
  const names = [
    ...tools.map(({ name }) => `man1/${name}.1`),
    ...own.map(([page]) => `man1/${page}.1`),
    ...knownPlugins.map(({ name }) => `man8/cni-${name}.8`),
  ]
  expect(Object.keys(pages).sort()).toEqual(names.sort())
})

test.each(own)("%s(1) has every flag with what the help says of it", (page, { flags, summary }, tool) => {
  const text = wordsOf(pages[`man1/${page}.1`] ?? "")
  const missing = Object.entries(flags).filter(
    ([flag, { help }]) => !text.includes(`--${flag}`) || !text.includes(help),
  )
  expect(missing).toEqual([])
  expect(text).toContain(`${summary[0]?.toLowerCase()}${summary.slice(1)}`)
  expect(wordsOf(pages[`man1/${tool}.1`] ?? "")).toContain(summary)
})

test.each(knownPlugins.map((known) => [known.name, known] as const))(
  "cni-%s(8) has every key with its meaning",
  (name, known) => {
    const text = wordsOf(pages[`man8/cni-${name}.8`] ?? "")
    const missing = known.keys.filter(
      ({ meaning }) =>
        !text.includes(
          meaning
            .replaceAll("`", "")
            .replaceAll("**", "")
            .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1"),
        ),
    )
    expect(missing).toEqual([])
    expect(text).toContain('.SH "SEE ALSO"')
  },
)

test.each(Object.entries(pages))("%s has no line that is a request by accident, and ASCII alone", (_, page) => {
  const known = /^\.(TH|SH|SS|PP|TP|RS|RE|nf|fi|IP)( |$)/
  expect(page.split("\n").filter((line) => /^[.']/.test(line) && !known.test(line))).toEqual([])
  expect(/[^\0-\x7f]/.test(page)).toBe(false)
})

describe("Markdown becomes man(7)", () => {
  test("code, strong text and links", () => {
    expect(inline("`--a-b` and **c**, [d](e.md)")).toBe("\\fB\\-\\-a\\-b\\fR and \\fBc\\fR, d")
  })

  test("what would be a request, or an escape, is text", () => {
    expect(literal(".PP\n'x\na\\b")).toBe(".PP\n.RS 4\n.nf\n\\&.PP\n\\&'x\na\\eb\n.fi\n.RE\n")
  })

  test("headlines, paragraphs, lists over several lines, fences and tables", () => {
    const markdown =
      "## Keys\n\nOne\ntwo.\n- a\n\n- b\n  c\n- d\n\n```json\n{\n\n}\n```\n\n| key | default | meaning |\n| --- | --- | --- |\n| `x` | 1 | is x |\n"
    expect(fromMarkdown(markdown)).toBe(
      [
        '.SH "KEYS"\n.PP\nOne two. - a\n.IP \\(bu 2\nb c\n.IP \\(bu 2\nd\n',
        ".PP\n.RS 4\n.nf\n{\n\n}\n.fi\n.RE\n",
        ".TP\n\\fBx\\fR\nis x. By default: 1.\n",
      ].join(""),
    )
  })
})

test("headlines of three levels, lists with stars, tables without a default, and cells without a text", () => {
  expect(fromMarkdown("# One\n### Two\nwords\n```\ncode\n```\n* a\n")).toBe(
    '.SH "ONE"\n.SS "Two"\n.PP\nwords\n.PP\n.RS 4\n.nf\ncode\n.fi\n.RE\n.IP \\(bu 2\na\n',
  )
  const table = "| a | b | default |\n| --- | --- | --- |\n| x | is x! | – |\n| | nothing; | 5 |\n| y | | |\n"
  expect(fromMarkdown(table)).toBe(".TP\nx\nis x!\n.TP\n\\[u2014]\nnothing; By default: 5.\n.TP\ny\n\n")
  expect(fromMarkdown("")).toBe("")
})

test("the page of a command has its name, synopsis, description and options", () => {
  const page = (name: string) =>
    wordsOf(pages[`man1/cni-${name}.1`] ?? "").replace(/cni-plugins [^"]+/, "cni-plugins VERSION")
  expect(page("recorder-off")).toBe(
    `.TH "CNI-RECORDER-OFF" 1 "" "cni-plugins VERSION" "CNI plugins"
.SH "NAME"
cni-recorder-off - stop recording, and delete the recorded calls
.SH "SYNOPSIS"
cni recorder off [flags]
.SH "DESCRIPTION"
.PP
Removes /run/cni/flight-recorder, if it exists.
.SH "SEE ALSO"
cni(1)
`,
  )
  expect(page("version")).not.toContain("DESCRIPTION")
  expect(page("explain")).toContain("\ncni explain ERROR|CODE|NAME|- ... [flags]\n")
  const trace = page("trace")
  expect(trace).toContain(`.SH "OPTIONS"
.TP
--to ADDRESS[:PORT]
destination; an IPv6 address with a port needs brackets
.TP
--udp
UDP instead of TCP
.TP
-i, --ifname NAME
`)
  expect(trace).toContain(`
.PP
Examples:
.PP
.RS 4
.nf
cni trace pods demo --to 192.0.2.7:443
cni trace pods shop/web-0 --to 10.85.0.1:8080 --probe
cni trace pods demo --to '[2001:db8::7]:53' --udp
cni trace --from 198.51.100.7 --to-port 8080
cni trace --from host --to 10.85.0.2:8080
cni trace --from 198.51.100.7 --to 192.0.2.2:8080 --in eth1
.fi
.RE
.SH "OPTIONS"`)
  expect(page("trace")).toContain(
    "\nExit code 0: the packet arrives, or may arrive. 3: the packet is lost on a path, or the probe got no answer.\n",
  )
})

test("the tool's page has its exit codes, variables and files", () => {
  const page = wordsOf(pages["man1/cni.1"] ?? "")
  const from = (headline: string, next: string) =>
    page.slice(page.indexOf(`.SH "${headline}"`), page.indexOf(`.SH "${next}"`))
  const terms = (...rows: [string, string][]) => rows.map(([term, meaning]) => `.TP\n${term}\n${meaning}\n`).join("")
  expect(page).toStartWith('.TH "CNI" 1 "" "cni-plugins ')
  expect(from("NAME", "COMMANDS")).toBe(
    `.SH "NAME"
cni - attach containers to networks by hand, inspect a node, check configurations
.SH "SYNOPSIS"
cni \\fICOMMAND [arguments]
.SH "DESCRIPTION"
.PP
For people and scripts; plugins do not need it. It has no daemon: it reads the kernel, the runtime's records, host-local's store and the configurations. Every command has --help.
`,
  )
  expect(from("COMMANDS", "EXIT STATUS")).toContain(
    ".TP\nipam ls\nShow the addresses that host-local assigned; see cni-ipam-ls(1)\n",
  )
  expect(from("EXIT STATUS", "ENVIRONMENT")).toBe(
    `.SH "EXIT STATUS"\n${terms(
      ["0", "success, or no faults"],
      ["1", "failure; the message says why"],
      ["2", "the command line is wrong"],
      ["3", "the command found faults"],
    )}`,
  )
  expect(from("ENVIRONMENT", "FILES")).toBe(
    `.SH "ENVIRONMENT"\n${terms(
      ["NETCONFPATH", "the directory of configurations, without --conf-dir"],
      ["CNI_PATH", "the directories of plugins, without --bin-dir"],
      ["CNI_IFNAME", "the interface in the container, without --ifname"],
      ["CNI_ARGS", "arguments for plugins: K=V;K=V"],
      ["CAP_ARGS", "a JSON object with a value for each capability"],
      ["NO_COLOR", "no colors, with any value"],
    )}`,
  )
  expect(from("FILES", "SEE ALSO")).toBe(
    `.SH "FILES"\n${terms(
      ["/etc/cni/net.d", "configurations of networks, *.conflist and *.conf; the first by name is for pods"],
      ["/opt/cni/bin", "the plugins"],
      ["/var/lib/cni/results", "the runtimes' records of ADD"],
      ["/var/lib/cni/networks", "host-local's reservations"],
    )}`,
  )
  expect(page).toContain('.SH "SEE ALSO"\ncni-bandwidth(8),\ncni-bridge(8),\ncni-dhcp(8),\n')
})

test("the page of a plugin says where its object stands", () => {
  const role = (name: string) =>
    /An object in (.*)\. The runtime runs the plugin, (.*)\.\n/
      .exec(wordsOf(pages[`man8/cni-${name}.8`] ?? ""))
      ?.slice(1)
  expect(role("bridge")).toEqual(['"plugins" of a network\'s list', "/opt/cni/bin/bridge"])
  expect(role("portmap")).toEqual([
    '"plugins" of a network\'s list, after the plugin that creates the interface',
    "/opt/cni/bin/portmap",
  ])
  expect(role("host-local")).toEqual(['"ipam" of a network\'s list', "/opt/cni/bin/host-local"])
  for (const { name } of knownPlugins)
    expect(pages[`man8/cni-${name}.8`]).toStartWith(`.TH "CNI-${name.toUpperCase()}" 8 "" "cni-plugins `)
  const bridge = wordsOf(pages["man8/cni-bridge.8"] ?? "")
  expect(bridge).toContain('.SH "SYNOPSIS"\n.PP\n.RS 4\n.nf\n{ "type": "bridge", ... }\n.fi\n.RE\n')
  expect(bridge).toMatch(/\.SH "NAME"\ncni-bridge - [a-z][^.]+\n/)
  expect(bridge).toEndWith('.SH "SEE ALSO"\ncni(1),\ncni-lint(1),\ncni-schema(1),\ncni-explain(1)\n')
})
