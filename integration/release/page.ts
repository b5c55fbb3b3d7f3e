import { join } from "node:path"
import { root } from "../../scripts/engine.ts"

/**
 * The commands in a section of a page, in code blocks that begin with "```sh NAME" or "```sh". A block without a name
 * gets the headline above it as its name. A test finally checks that it has used all blocks, so that new and renamed
 * blocks make it fail.
 *
 * @example
 * const page = await Page.read("docs/install.md", "Install")
 * await host.follow(page.commands("archive"))
 * expect(page.unread()).toEqual([])
 */
export class Page {
  readonly #fences: ReadonlyMap<string, string>
  readonly #read = new Set<string>()

  private constructor(fences: ReadonlyMap<string, string>) {
    this.#fences = fences
  }

  /** Reads the section `headline` of a page; `path` is relative to the project. Throws if block names repeat. */
  static async read(path: string, headline: string): Promise<Page> {
    const text = await Bun.file(join(root, path)).text()
    const section = text.split(/^(?=## )/m).find((part) => part.startsWith(`## ${headline}\n`))
    if (section === undefined) throw new Error(`Cannot find the section "${headline}" in ${path}`)
    return Page.of(section)
  }

  static of(text: string): Page {
    const fences = new Map<string, string>()
    let headline = ""
    const parts = text.matchAll(/^#+ ([^\n]*)$|^```(\w*)(?: (\S+))?\n(.*?)^```$/gms)
    for (const [, title, language, name, commands = ""] of parts) {
      if (title !== undefined) headline = title
      if (language !== "sh") continue
      const key = name ?? headline
      if (fences.has(key)) throw new Error(`Two fences of the page have the name "${key}"`)
      fences.set(key, commands)
    }
    return new Page(fences)
  }

  /** Returns the commands of a block, unchanged. Throws if no block has this name. */
  commands(name: string): string {
    const commands = this.#fences.get(name)
    if (commands === undefined) throw new Error(`The page has no fence "sh ${name}"`)
    this.#read.add(name)
    return commands
  }

  /** Returns the names of the blocks that were never requested. */
  unread(): string[] {
    return [...this.#fences.keys()].filter((name) => !this.#read.has(name))
  }
}
