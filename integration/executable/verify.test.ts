import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { execa } from "execa"
import { requireSameAnswers, requireSameSections } from "../../scripts/verify.ts"
import { TemporaryDirectory } from "../lab/mod.ts"

describe("code and constants of two executables", () => {
  const program = (text: string, constant: number) =>
    `static const int table[] = {${constant}, 2, 3};\nint main(int count, char **a) { return table[count & 1] + ${text}; }\n`

  async function compile(directory: TemporaryDirectory, name: string, source: string): Promise<string> {
    writeFileSync(directory.join(`${name}.c`), source)
    await execa("musl-gcc", ["-O0", "-static", "-o", directory.join(name), directory.join(`${name}.c`)])
    return directory.join(name)
  }

  test.each([
    ["other code", program("a[0][0]", 1), ".text"],
    ["another constant", program("0", 7), ".rodata"],
  ])("%s is refused, the same is not", async (_, source, section) => {
    await using directory = await TemporaryDirectory.create()
    const one = await compile(directory, "one", program("0", 1))
    const same = await compile(directory, "same", program("0", 1))
    const other = await compile(directory, "other", source)
    const compare = (file: string) => requireSameSections(one, file)
    compare(same)
    expect(() => compare(other)).toThrow(`Section ${section} differs`)
  })
})

describe("answers of two executables", () => {
  /** Writes a shell script that acts as a plugin: `add` is its command for ADD. */
  async function script(directory: TemporaryDirectory, name: string, add: string): Promise<string> {
    const text = `#!/bin/sh\nread -r input\ncase "$CNI_COMMAND $input" in\nVERSION*) echo versions;;\n"ADD {") echo bad; exit 1;;\n*) ${add};;\nesac\n`
    writeFileSync(directory.join(name), text, { mode: 0o755 })
    return directory.join(name)
  }

  test("that differ in a byte, in the exit code or in what is on stderr are refused", async () => {
    await using directory = await TemporaryDirectory.create()
    const one = await script(directory, "one", "echo fine")
    const compare = (file: string) =>
      requireSameAnswers([one, file], ["bridge", "static"], [], directory.join("scratch"))
    await compare(await script(directory, "same", "echo fine"))
    for (const add of ["echo Fine", "echo fine; exit 1", "echo fine; echo oops >&2"]) {
      await expect(compare(await script(directory, "other", add))).rejects.toThrow("answers")
    }
  })

  test("of which an ADD that has to succeed fails are refused", async () => {
    await using directory = await TemporaryDirectory.create()
    const failing = await script(directory, "failing", "exit 1")
    const compare = (name: string) => requireSameAnswers([failing, failing], [name], [], directory.join("scratch"))
    await compare("bridge")
    await expect(compare("host-local")).rejects.toThrow("ADD of host-local")
  })
})
