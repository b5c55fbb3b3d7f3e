import type { Firewalld } from "../firewalld.ts"

/** Plays firewalld: its zones' sources as "ZONE SOURCE"; it refuses to add or remove what is in `refused`. */
export class Zones {
  readonly sources: string[]
  /** How often a zone's sources were asked for. */
  asked = 0
  /** How often it was let go of. */
  closed = 0
  readonly #refused: readonly string[]

  constructor(sources: readonly string[], ...refused: string[]) {
    this.sources = [...sources]
    this.#refused = refused
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
    if (this.#refused.includes(source)) throw new Error(`refused: ${source}`)
  }

  [Symbol.dispose](): void {
    this.closed++
  }
}

export const asFirewalld = (zones: Zones) => zones as unknown as Firewalld

export type { Backend, FirewallConfig } from "../config.ts"
export { Firewall } from "../firewall.ts"
