/** A call that the console of a machine tells of: `before` it, or with its answer. */
interface Told {
  readonly verb: string
  readonly plugin: string
  readonly container: string
  /** Undefined before the call. */
  readonly answer?: { readonly exitCode: number; readonly text: string }
}

/**
 * What a runtime knows of its attachments by the console of `power-cuts.sh`, over all boots. An address that two containers have at
 * a time, and a call that fails, are `faults`.
 */
export class PowerConsole {
  readonly faults: string[] = []
  /** How many lines of calls there were in this boot. */
  lines = 0
  /** "PLUGIN,CONTAINER" of those whose ADD has begun and whose DEL has not been answered. */
  readonly #living = new Set<string>()
  /** Of those whose ADD has been answered, and whose DEL has not begun, what they were given. */
  readonly #answered = new Map<string, readonly string[]>()
  /** Those of `#answered` that live since this boot. */
  readonly #ofThisBoot = new Set<string>()

  /** The power is cut: every container has ended, and the runtime will delete it. */
  cut(): void {
    this.#ofThisBoot.clear()
    this.lines = 0
  }

  /** "PLUGIN,CONTAINER" of all that a runtime has to delete after a power cut. */
  get livingOfAll(): string[] {
    return [...this.#living]
  }

  /** The containers of a plugin that a runtime has to delete after a power cut. */
  living(plugin: string): string[] {
    const ofPlugin = this.livingOfAll.filter((key) => key.startsWith(`${plugin},`))
    return ofPlugin.map((key) => key.slice(plugin.length + 1))
  }

  /** The containers of a plugin whose ADD was answered and whose DEL has not begun, and their addresses; all, or since this boot. */
  answered(plugin: string, since: "ever" | "this boot"): Map<string, readonly string[]> {
    const ofPlugin = [...this.#answered].filter(([key]) => key.startsWith(`${plugin},`))
    const wanted = ofPlugin.filter(([key]) => since === "ever" || this.#ofThisBoot.has(key))
    return new Map(wanted.map(([key, addresses]) => [key.slice(plugin.length + 1), addresses]))
  }

  /** Reads a whole line. One that is not about a call is the kernel's; one that begins with "! " is a fault. */
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
