import type { ContainerNamespace, HostNamespace } from "../lab/mod.ts"

/**
 * Records which container has each address, from the result of ADD to the start of DEL. Two containers with the same
 * address are a violation, unless a saboteur removed the first reservation.
 */
export class Ledger {
  readonly #holders = new Map<string, string>()
  readonly #robbed = new Set<string>()
  /** Messages about addresses that two running containers have. */
  readonly violations: string[] = []
  /** The number of duplicate addresses after a saboteur removed the first reservation, which no plugin can detect. */
  robberies = 0
  /** The number of assigned addresses. */
  given = 0

  /** Records the addresses of an ADD result, with or without prefix length. */
  hold(container: string, addresses: readonly string[]): void {
    for (const address of addresses.map(bare)) {
      this.given++
      const holder = this.#holders.get(address)
      if (holder !== undefined) this.#conflict(address, holder, container)
      this.#holders.set(address, container)
    }
  }

  /** Releases the addresses of a container at the start of its DEL, or when it ends. */
  release(container: string): void {
    for (const [address, holder] of this.#holders) if (holder === container) this.#holders.delete(address)
  }

  /** Excludes an address from the check, because a saboteur is about to remove its reservation. */
  rob(address: string): void {
    this.#robbed.add(address)
  }

  /** Records a violation if `ip` shows the same address in two of these containers. */
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
