import { describe, expect, test } from "bun:test"
import { commands } from "../cni/main.ts"
import { keyDocs } from "../configuration/key-docs.ts"
import { knownPlugins } from "../configuration/plugins.ts"
import { fromMarkdown } from "./from-markdown.ts"
import { manualPages } from "./pages.ts"
import { inline, literal } from "./roff.ts"

const pages = manualPages()

/** What a page says, without what sets it. */
function wordsOf(page: string): string {
  return page
    .replace(/\\f[BR]/g, "")
    .replaceAll("\\-", "-")
    .replace(/\\\[u([0-9A-F]+)\]/g, (_, code) => String.fromCodePoint(Number.parseInt(code, 16)))
    .replaceAll("\\&", "")
}

test("there is a page for the tool, every command and every plugin", () => {
  const names = [
    "man1/cni.1",
    ...Object.keys(commands).map((name) => `man1/cni-${name.replace(" ", "-")}.1`),
    ...knownPlugins.map(({ name }) => `man8/cni-${name}.8`),
  ]
  expect(Object.keys(pages).sort()).toEqual(names.sort())
})

test.each(Object.entries(commands))(
  "cni-%s(1) has every flag with what the help says of it",
  (name, { flags, summary }) => {
    const text = wordsOf(pages[`man1/cni-${name.replace(" ", "-")}.1`] ?? "")
    const missing = Object.entries(flags).filter(
      ([flag, { help }]) => !text.includes(`--${flag}`) || !text.includes(help),
    )
    expect(missing).toEqual([])
    expect(text).toContain(`${summary[0]?.toLowerCase()}${summary.slice(1)}`)
    expect(wordsOf(pages["man1/cni.1"] ?? "")).toContain(summary)
  },
)

test.each(knownPlugins.map((known) => [known.name, known] as const))(
  "cni-%s(8) has every key with its meaning",
  (name, known) => {
    const text = wordsOf(pages[`man8/cni-${name}.8`] ?? "")
    const missing = keyDocs(known).filter(
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
