/**
 * Power cuts: a machine whose disk has the records of host-local, flannel and dhcp is killed amid ADDs and DELs, and started again on
 * that disk. Debian's kernel under QEMU; needs what `main.ts` needs.
 *
 *   npm run test:power                                       30 cuts on ext4, 30 on xfs
 *   bun integration/vm/power-cuts.ts --cuts 5 xfs            5 on xfs; dist/ has to be built
 *
 * SIGKILL ends QEMU: what the machine's kernel had in its own page cache is lost, what it had given to the disk is kept. CNI_TEST_SEED chooses when, by the lines of the console; how far the machine is in between is its own.
 */
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { execa } from "execa"
import { fileSystems } from "../faults/failing-disk.ts"
import { builtPlugins, Chance, HostNamespace, seed, TemporaryDirectory } from "../lab/mod.ts"
import { debianKernel } from "./debian-kernel.ts"
import { makeInitramfs } from "./initramfs.ts"
import { PowerConsole } from "./power-console.ts"
import { configs, judgeDisk, type Left } from "./power-disk.ts"

type FileSystem = keyof typeof fileSystems
const allFileSystems = ["ext4", "xfs"] as const satisfies FileSystem[]

/** The time limit of a machine until its power cut. */
const limitMs = 300_000

/** The moment of a power cut: a delay after this console line, or after the next line that begins like `answer`. */
interface Moment {
  readonly line: number
  readonly ms: number
  readonly answer?: string
}

/** Chooses the moment. Each fourth cut follows an answer of dhcp, which are rare. Its data must then be on the disk. */
function momentOf(boot: number, chance: Chance): Moment {
  const [line, ms] = [1 + chance.below(240), chance.below(40)]
  return boot % 4 === 2 ? { line, ms: ms % 4, answer: "< ADD dhcp " } : { line, ms }
}

/** A machine with a disk of a file system. */
class Machine {
  readonly console = new PowerConsole()
  readonly disk: string
  readonly #fileSystem: FileSystem
  readonly #directory: TemporaryDirectory
  #kernel: { image: string; initramfs: string } | undefined

  constructor(fileSystem: FileSystem, directory: TemporaryDirectory) {
    this.#fileSystem = fileSystem
    this.#directory = directory
    this.disk = directory.join("disk")
  }

  /** Creates its empty disk and its boot files. */
  async make(): Promise<void> {
    const options = { env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } }
    await execa("truncate", ["--size", fileSystems[this.#fileSystem], this.disk], options)
    await execa(`mkfs.${this.#fileSystem}`, ["-q", this.disk], options)
    const { image, modules } = await debianKernel()
    const files = [join(import.meta.dir, "dhcp-scene.sh")]
    for (const [plugin, config] of Object.entries(configs)) {
      const file = this.#directory.join(`${plugin}.json`)
      await Bun.write(file, JSON.stringify(config))
      files.push(file, join(builtPlugins, plugin))
    }
    const settings = { share: "none", reports: "", modules, checkout: "" }
    const needed = ["virtio_pci", "virtio_blk", "crc32c_generic", this.#fileSystem, "veth"]
    const contents = { init: "power-cuts.sh", files }
    this.#kernel = { image, initramfs: await makeInitramfs(this.#directory.path, settings, needed, contents) }
  }

  /** Starts and kills it. Returns whether it was alive until then. */
  async runUntil(boot: number, moment: Moment): Promise<boolean> {
    const { image = "", initramfs = "" } = this.#kernel ?? {}
    const told = { fs: this.#fileSystem, boot, seed: seed + boot, living: this.console.livingOfAll.join(" ") }
    const words = Object.entries(told).map(([name, value]) => `${name}="${value}"`)
    const command = [
      ...["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "256", "-nodefaults", "-no-reboot"],
      ...["-display", "none", "-serial", "stdio", "-kernel", image, "-initrd", initramfs],
      ...["-append", ["console=ttyS0 quiet panic=-1", ...words].join(" ")],
      ...["-drive", `if=virtio,format=raw,cache=writeback,file=${this.disk}`],
    ]
    const machine = execa("setpriv", ["--pdeathsig", "KILL", ...command], {
      stdin: "ignore",
      reject: false,
      buffer: false,
      timeout: limitMs,
      killSignal: "SIGKILL",
    })
    let isCut = false
    this.console.cut()
    for await (const line of machine) {
      this.console.read(line.replace(/\r$/, ""))
      if (isCut || this.console.lines < moment.line || !line.startsWith(moment.answer ?? "")) continue
      isCut = true
      setTimeout(() => machine.kill("SIGKILL"), moment.ms)
    }
    return isCut && (await machine).signal === "SIGKILL"
  }
}

/** The results of a machine's power cuts. */
interface Seen extends Left {
  /** The number of cuts after which all was correct. */
  readonly held: number
}

/** Cuts the power `cuts` times, and judges the disk after each. */
async function cutPower(fileSystem: FileSystem, cuts: number): Promise<Seen> {
  await using directory = await TemporaryDirectory.create("cni-power-cuts", "/var/tmp")
  await using host = await HostNamespace.create()
  const machine = new Machine(fileSystem, directory)
  await machine.make()
  const chance = new Chance(seed)
  const seen = { held: 0, torn: 0, records: 0, leases: 0 }
  for (let boot = 1; boot <= cuts; boot++) {
    const moment = momentOf(boot, chance)
    const { faults, left } = await cutOnce(machine, host, directory.join(`cut-${boot}`), boot, moment)
    if (faults.length === 0) seen.held++
    for (const what of ["torn", "records", "leases"] as const) seen[what] += left?.[what] ?? 0
    const [shown, number] = [machine.console.livingOfAll.length, left?.torn ?? "?"]
    const at = `killed ${moment.ms} ms after line ${moment.line}${moment.answer === undefined ? "" : " and an answer of dhcp"}`
    console.log(`${fileSystem}, power cut ${boot}: ${at}; ${shown} attachments, ${number} reservations torn`)
    for (const fault of faults) console.log(`${fileSystem}, power cut ${boot}: FAILED: ${fault}`)
  }
  return seen
}

async function cutOnce(
  machine: Machine,
  host: HostNamespace,
  image: string,
  boot: number,
  moment: Moment,
): Promise<{ faults: string[]; left?: Left }> {
  const wasAlive = await machine.runUntil(boot, moment)
  const faults = machine.console.faults.splice(0)
  if (!wasAlive) faults.push(`the machine ended by itself after line ${machine.console.lines}`)
  await execa("cp", ["--sparse=always", machine.disk, image])
  try {
    return { faults, left: await judgeDisk(host, image, machine.console) }
  } catch (error) {
    return { faults: [...faults, String(error)] }
  } finally {
    await rm(image)
  }
}

/** The number of cuts after which each kind of result must have occurred. */
const enough = 10

/**
 * Tests both file systems in parallel. Returns the numbers of passed tests and of failures, as `main.ts` counts them.
 */
export async function testPowerCuts(
  cuts: number,
  chosen: readonly FileSystem[] = allFileSystems,
): Promise<{ passed: number; failed: number }> {
  const results = chosen.map((fileSystem) => testFileSystem(fileSystem, cuts))
  const passed = (await Promise.all(results)).filter(Boolean).length
  return { passed, failed: chosen.length - passed }
}

async function testFileSystem(fileSystem: FileSystem, cuts: number): Promise<boolean> {
  const { held, torn, records, leases } = await cutPower(fileSystem, cuts)
  const hasShownAll = cuts < enough || (torn > 0 && records > 0 && leases > 0)
  const isGood = held === cuts && hasShownAll
  const title = `no living address is given twice, none is lost, and records outlive the power: ${cuts} cuts of a machine with ${fileSystem}`
  const note = `${torn} reservations torn, ${records} records of flannel and ${leases} leases of dhcp kept`
  console.log(`${isGood ? "(pass)" : "(fail)"} ${title}\n| ${fileSystem}, seed ${seed} | ${cuts} | ${held} | ${note} |`)
  return isGood
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { cuts: { type: "string", default: "30" } },
  })
  const chosen = allFileSystems.filter((name) => positionals.length === 0 || positionals.includes(name))
  const { passed, failed } = await testPowerCuts(Number(values.cuts), chosen)
  console.log(`\n${passed} passed, ${failed} failed`)
  process.exitCode = failed === 0 ? 0 : 1
}
