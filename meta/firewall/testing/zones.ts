import type { PacketFilter } from "../../../pkg/nftables/mod.ts"
import { RuleSetKernel } from "../../../pkg/nftables/testing/rule-set-kernel.ts"
import type { Backend } from "../config.ts"
import { Firewall } from "../firewall.ts"
import type { Firewalld } from "../firewalld.ts"
import { type Group, ruleSet } from "./firewall.ts"

/** Plays firewalld: its zones' sources as "ZONE SOURCE". Refuses to add or remove those in `refused`. */
export class Zones {
  readonly sources: string[]
  /** The number of requests for a zone's sources. */
  asked = 0
  /** The number of times it was released. */
  closed = 0
  readonly #refused: readonly string[]
  readonly #reason: Error | undefined

  /** `refused` may begin with the error that it refuses with. */
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

/**
 * A firewall on a host with firewalld, if `zones` are given, and with nf_tables that hold all this, but for what goes
 * with the first transaction: what c2 has in net1. Tells for which backends firewalld was asked.
 */
export function playedFirewall(zones: Zones | undefined, groups: readonly Group[] = [], ...refusals: string[]) {
  const left = groups.map(({ set, elements }) => ({
    set,
    elements: elements.filter(({ comment }) => comment !== "net1/c2/eth0"),
  }))
  const kernel: RuleSetKernel = new RuleSetKernel(
    () => ruleSet(...(kernel.sent.length > 0 ? left : groups)),
    ...refusals,
  )
  const log: string[] = []
  const asked: (Backend | undefined)[] = []
  const socket = Object.assign(kernel.socket, { leave() {} })
  const hasTable = (name: string | RegExp) => name === "cni_firewall"
  const filter = { socket, hasTable, forgetTables() {}, [Symbol.dispose]() {} }
  const findFirewalld = (backend: Backend | undefined) => {
    asked.push(backend)
    return backend === "nftables" || backend === "iptables" || !zones ? undefined : asFirewalld(zones)
  }
  const parts = { filter: filter as unknown as PacketFilter, findFirewalld }
  return { firewall: new Firewall((line) => log.push(line), parts), kernel, log, asked }
}

export type { FirewallConfig } from "../config.ts"
export { type Backend, Firewall }
