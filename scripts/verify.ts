/** Checks that a build makes before it delivers an executable that starts from a heap image. */
import { linkSync, mkdirSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { execa } from "execa"
import { sectionsOf } from "./elf.ts"

/**
 * The sections to which the image's pointers refer, so that address and content must be the same in both executables.
 */
const sections = [".text", ".rodata", ".data", ".data.rel.ro", ".init_array"]

/** Throws if code or constants of two executables differ. */
export function requireSameSections(maker: string, linked: string): void {
  const [made, used] = [sectionsOf(readFileSync(maker)), sectionsOf(readFileSync(linked))]
  for (const name of sections) {
    if (!(made.get(name) ?? empty).equals(used.get(name) ?? empty))
      throw new Error(`Section ${name} differs between the executable that made the image and the one that has it`)
  }
}

const empty = Buffer.alloc(0)

/** Returns the configuration for an ADD without root and namespace, which changes only files below `directory`. */
const addOf = (name: string, directory: string) => ({
  cniVersion: "1.1.0",
  name: "verify",
  type: name,
  ipam: {
    type: name,
    dataDir: directory,
    ranges: [[{ subnet: "192.0.2.0/24" }, { subnet: "198.51.100.0/24" }], [{ subnet: "2001:db8::/64" }]],
    addresses: [{ address: "192.0.2.7/24", gateway: "192.0.2.1" }],
    routes: [{ dst: "0.0.0.0/0" }],
  },
})

/** The plugins whose ADD must succeed in a build. ADD of other plugins fails, because the namespace does not exist. */
const needNoNamespace = ["host-local", "static"]

/**
 * Throws if two executables answer differently under one of `names`. Compares VERSION, an ADD, and a malformed
 * configuration. `emulator` runs the executables on this machine; `scratch` is a directory to create.
 */
export async function requireSameAnswers(
  executables: readonly [string, string],
  names: readonly string[],
  emulator: readonly string[],
  scratch: string,
): Promise<void> {
  for (const name of names) {
    const [image, bytecode] = executables
    const one = await answersOf(image, name, emulator, join(scratch, name))
    const other = await answersOf(bytecode, name, emulator, join(scratch, name))
    if (one !== other) throw new Error(`"${name}" from its heap image answers\n${one}\nand from bytecode\n${other}`)
  }
}

async function answersOf(file: string, name: string, emulator: readonly string[], directory: string): Promise<string> {
  mkdirSync(directory, { recursive: true })
  try {
    const executable = join(directory, name)
    linkSync(file, executable)
    const ask = (verb: string, input: string) => {
      const env = {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: "verify",
        CNI_NETNS: join(directory, "no-such-namespace"),
        CNI_IFNAME: "eth0",
        CNI_PATH: directory,
      }
      const [program = "", ...args] = [...emulator, executable]
      return execa(program, args, { env, extendEnv: false, input, reject: false, stripFinalNewline: false })
    }
    const added = await ask("ADD", JSON.stringify(addOf(name, join(directory, "data"))))
    if (needNoNamespace.includes(name) && added.exitCode !== 0)
      throw new Error(`ADD of ${name}: ${added.stdout}${added.stderr}`)
    const answers = [await ask("VERSION", ""), added, await ask("ADD", "{")]
    return answers
      .map(({ exitCode, signal, stdout, stderr }) => [exitCode ?? signal, stdout, stderr].join("\n"))
      .join("\n")
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
