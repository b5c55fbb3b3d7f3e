import type { Firewalld } from "../firewalld.ts"

export { Firewall } from "../firewall.ts"

/** A fake firewalld. `sources` has a text "ZONE SOURCE" for each source. Adding or removing one in `refused` fails. */
export class Zones {
  readonly sources: string[]
  /** The number of requests for a zone's sources. */
  asked = 0
  closed = 0
  readonly #refused: readonly string[]
  readonly #reason: Error | undefined

  /** The first of `refused` may be the error that refusals throw. */
  constructor(sources: readonly string[], ...refused: (string | Error)[]) {
    this.sources = [...sources]
    this.#reason = refused.find((one) => typeof one !== "string")
    this.#refused = refused.filter((one) => typeof one === "string")
  }

  listSources(zone: string): string[] {
    this.asked++
    return this.sources.filter((one) => one.startsWith(`${zone} `)).map((one) => one.slice(zone.length + 1))
  }

  addSource(zone: string, source: string): void {
    this.#refuse(`${zone} ${source}`)
    this.sources.push(`${zone} ${source}`)
  }

  removeSource(zone: string, source: string): void {
    this.#refuse(`${zone} ${source}`)
    this.sources.splice(this.sources.indexOf(`${zone} ${source}`), 1)
  }

  #refuse(source: string): void {
    if (this.#refused.includes(source)) throw this.#reason ?? new Error(`refused: ${source}`)
  }

  [Symbol.dispose](): void {
    this.closed++
  }
}

export const asFirewalld = (zones: Zones) => zones as unknown as Firewalld
