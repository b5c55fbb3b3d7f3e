import { cellsOf } from "../../tools/configuration/mod.ts"
import { bullet, heading, literal, paragraph, subheading, term } from "./roff.ts"

/** Converts a Markdown page to the body of a manual page. The caller writes the page's heading and first paragraph. */
export function fromMarkdown(markdown: string): string {
  const blocks = blocksOf(markdown.split("\n"))
  return blocks.map(blockText).join("")
}

/** Splits lines into blocks: paragraphs, lists, tables, headings, and fenced code. */
function blocksOf(lines: readonly string[]): string[][] {
  const blocks: string[][] = []
  let block: string[] = []
  let isFenced = false
  for (const line of lines) {
    const isFence = /^ *```/.test(line)
    if (isFence && !isFenced && block.length > 0) blocks.push(block.splice(0))
    if (isFenced || isFence || line.trim() !== "") block.push(line)
    const isEnd = !isFenced && (line.trim() === "" || line.startsWith("#"))
    if ((isFence && isFenced) || (isEnd && !isFence)) {
      if (block.length > 0) blocks.push(block)
      block = []
    }
    if (isFence) isFenced = !isFenced
  }
  return block.length > 0 ? [...blocks, block] : blocks
}

function blockText(block: readonly string[]): string {
  const [first = ""] = block
  if (/^ *```/.test(first)) return literal(block.slice(1, -1).join("\n"))
  if (first.startsWith("### ")) return subheading(first.slice(4))
  if (first.startsWith("#")) return heading(first.replace(/^#+ /, ""))
  if (first.startsWith("|")) return tableText(block)
  if (/^[-*] /.test(first)) return itemsOf(block).map(bullet).join("")
  return paragraph(block.join("\n"))
}

function itemsOf(lines: readonly string[]): string[] {
  const items: string[] = []
  for (const line of lines) {
    if (/^[-*] /.test(line)) items.push(line.slice(2))
    else items.push(`${items.pop() ?? ""} ${line.trim()}`)
  }
  return items
}

/** Converts a table to terms with descriptions. The first column has the terms, and the column "default" comes last. */
function tableText([heads = "", , ...rows]: readonly string[]): string {
  const names = cellsOf(heads)
  return rows
    .map((row) => {
      const [first = "", ...cells] = cellsOf(row)
      const others = cells
        .map((cell, index) => ({ name: names[index + 1] ?? "", cell }))
        .filter(({ cell }) => cell !== "")
      const isDefault = ({ name }: { name: string }) => name === "default"
      const texts = others.filter((one) => !isDefault(one)).map(({ cell }) => cell)
      const usual = others.filter((one) => isDefault(one) && one.cell !== "–").map(({ cell }) => `By default: ${cell}.`)
      return term(first === "" ? "—" : first, [...texts.map(withStop), ...usual].join(" "))
    })
    .join("")
}

function withStop(text: string): string {
  return /[.:;!?]$/.test(text) ? text : `${text}.`
}
