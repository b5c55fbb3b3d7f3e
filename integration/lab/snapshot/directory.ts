import { readdir, readFile, readlink } from "node:fs/promises"
import { join } from "node:path"

/**
 * Everything in a directory, one line per entry: `path/`, `path = "content"` or `path -> target`. `root` is in front of
 * the paths when they are read, and not in the lines. A directory that does not exist has no lines.
 */
export async function directoryLines(root: string, directory: string): Promise<string[]> {
  const entries = await readdir(root + directory, { withFileTypes: true }).catch(() => [])
  const lines = entries.map(async (entry) => {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) return [`${path}/`, ...(await directoryLines(root, path))]
    if (entry.isSymbolicLink()) return `${path} -> ${await readlink(root + path)}`
    if (!entry.isFile()) return `${path} (special)`
    return `${path} = ${JSON.stringify(await readFile(root + path, "utf8"))}`
  })
  return (await Promise.all(lines)).flat().sort()
}
