import type { ContainerNamespace, HostNamespace } from "../lab/mod.ts"

/**
 * Who holds which address, by what ADD has answered: held from the answer of an ADD to the start of its DEL. A second living
 * holder is a violation, unless the first one's reservation was taken away by a saboteur.
 */
export class Ledger {
  readonly #holders = new Map<string, string>()
  readonly #robbed = new Set<string>()
  /** Addresses that two living containers were told to have. */
  readonly violations: string[] = []
  /** The same where a saboteur had removed the reservation of the first: no plugin could know. */
  robberies = 0
  /** How many addresses were given. */
  given = 0

  /** An ADD has answered these addresses, with prefix length or without. */
  hold(container: string, addresses: readonly string[]): void {
    for (const address of addresses.map(bare)) {
      this.given++
      const holder = this.#holders.get(address)
      if (holder !== undefined) this.#conflict(address, holder, container)
      this.#holders.set(address, container)
    }
  }

  /** The container's DEL begins, or the container is gone. */
  release(container: string): void {
    for (const [address, holder] of this.#holders) if (holder === container) this.#holders.delete(address)
  }

  /** A saboteur is about to take the reservation of this address away: it is judged no more. */
  rob(address: string): void {
    this.#robbed.add(address)
  }

  /** Looks whether two of these containers have one address by what `ip` shows in them. */
  async compare(host: HostNamespace, containers: readonly ContainerNamespace[]): Promise<void> {
    const script = 'for pod; do ip -n "$pod" -o address show scope global | sed "s|^|$pod |"; done'
    const pods = containers.map(({ name }) => name)
    const { stdout } = await host.exec("sh", ["-c", script, "sh", ...pods])
    const seen = new Map<string, string>()
    for (const line of stdout.split("\n").filter(Boolean)) {
      const [pod = "", , , , address = ""] = line.split(/\s+/)
      const other = seen.get(bare(address))
      if (other !== undefined && other !== pod) this.#conflict(bare(address), other, pod)
      seen.set(bare(address), pod)
    }
  }

  #conflict(address: string, holder: string, container: string): void {
    if (this.#robbed.has(address)) this.robberies++
    else this.violations.push(`${address} is held by ${holder} and ${container}`)
  }
}

function bare(address: string): string {
  return address.replace(/\/.*/, "")
}
