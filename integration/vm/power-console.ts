/** A call on a machine's console: `before` it, or with its answer. */
interface Told {
  readonly verb: string
  readonly plugin: string
  readonly container: string
  /** Undefined before the call. */
  readonly answer?: { readonly exitCode: number; readonly text: string }
}

/**
 * The attachments that a runtime knows from the console of `power-cuts.sh`, over all boots. `faults` are failed calls,
 * and addresses that two containers have at the same time.
 */
export class PowerConsole {
  readonly faults: string[] = []
  /** The number of call lines in this boot. */
  lines = 0
  /** "PLUGIN,CONTAINER" of attachments whose ADD has begun and whose DEL is not answered. */
  readonly #living = new Set<string>()
  /** The addresses of attachments whose ADD is answered and whose DEL has not begun. */
  readonly #answered = new Map<string, readonly string[]>()
  /** Those of `#answered` from this boot. */
  readonly #ofThisBoot = new Set<string>()

  /** Records a power cut: every container has ended, and the runtime will delete it. */
  cut(): void {
    this.#ofThisBoot.clear()
    this.lines = 0
  }

  /** "PLUGIN,CONTAINER" of all attachments that a runtime must delete after a power cut. */
  get livingOfAll(): string[] {
    return [...this.#living]
  }

  /** Returns a plugin's containers that a runtime must delete after a power cut. */
  living(plugin: string): string[] {
    const ofPlugin = this.livingOfAll.filter((key) => key.startsWith(`${plugin},`))
    return ofPlugin.map((key) => key.slice(plugin.length + 1))
  }

  /**
   * Returns a plugin's containers whose ADD was answered and whose DEL has not begun, with their addresses: all, or
   * those of this boot.
   */
  answered(plugin: string, since: "ever" | "this boot"): Map<string, readonly string[]> {
    const ofPlugin = [...this.#answered].filter(([key]) => key.startsWith(`${plugin},`))
    const wanted = ofPlugin.filter(([key]) => since === "ever" || this.#ofThisBoot.has(key))
    return new Map(wanted.map(([key, addresses]) => [key.slice(plugin.length + 1), addresses]))
  }

  /**
   * Reads a complete line. A line that is not about a call is the kernel's. A line that begins with "! " is a fault.
   */
  read(line: string): void {
    if (line.startsWith("! ")) this.faults.push(line.slice(2))
    const told = parse(line)
    if (told === undefined) return
    this.lines++
    if (told.answer === undefined) this.#begin(told)
    else this.#end(told, told.answer)
  }

  #begin({ verb, plugin, container }: Told): void {
    const key = `${plugin},${container}`
    if (verb === "ADD") this.#living.add(key)
    const over = verb === "GC" ? [...this.#answered.keys()].filter((each) => each.startsWith(`${plugin},`)) : [key]
    for (const each of verb === "ADD" ? [] : over) {
      this.#answered.delete(each)
      this.#ofThisBoot.delete(each)
    }
  }

  #end({ verb, plugin, container }: Told, { exitCode, text }: NonNullable<Told["answer"]>): void {
    const key = `${plugin},${container}`
    if (exitCode !== 0) this.faults.push(`${verb} of ${plugin} for ${container} ended with ${exitCode}: ${text}`)
    else if (verb === "DEL") this.#living.delete(key)
    else if (verb === "ADD") this.#keep(key, addressesIn(text))
  }

  #keep(key: string, addresses: readonly string[]): void {
    if (addresses.length === 0) this.faults.push(`ADD of ${key} answered without an address`)
    for (const other of this.#ofThisBoot) {
      const twice = (this.#answered.get(other) ?? []).filter((address) => addresses.includes(address))
      for (const address of twice) this.faults.push(`${address} was given to ${key}, and ${other} has it`)
    }
    this.#answered.set(key, addresses)
    this.#ofThisBoot.add(key)
  }
}

function parse(line: string): Told | undefined {
  const [, begins, verb, plugin, container, exitCode, text = ""] =
    /^([<>]) ([A-Z]+) ([a-z-]+) (\S+)(?: (\d+)(?: (.*))?)?$/.exec(line) ?? []
  if (verb === undefined || plugin === undefined || container === undefined) return undefined
  if (begins === ">") return { verb, plugin, container }
  return { verb, plugin, container, answer: { exitCode: Number(exitCode), text } }
}

function addressesIn(text: string): string[] {
  try {
    const { ips } = JSON.parse(text) as { ips: { address: string }[] }
    return ips.map(({ address }) => address.replace(/\/.*/, ""))
  } catch {
    return []
  }
}
