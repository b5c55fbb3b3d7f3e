import { join } from "node:path"

const page = join(import.meta.dir, "../RESULTS.md")

/** Writes a section of RESULTS.md, and keeps the other sections. */
export async function writeSection(title: string, body: string): Promise<void> {
  const file = Bun.file(page)
  const [intro = "", ...sections] = (await file.text()).split(/^(?=## )/m)
  const others = sections.filter((section) => !section.startsWith(`## ${title}\n`))
  const all = [...others, `## ${title}\n\n${body}`].map((section) => section.trim()).sort()
  await Bun.write(page, `${[intro.trim(), ...all].join("\n\n")}\n`)
}
