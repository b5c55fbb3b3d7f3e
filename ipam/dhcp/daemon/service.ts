import {
  type Attachment,
  isCniError,
  type JsonObject,
  type NetworkConfig,
  parseJsonObject,
  parseNetworkConfig,
  sameIp,
} from "../../../pkg/types/mod.ts"
import { type DhcpConfig, parseDhcpConfig } from "../config.ts"
import type { CallArguments } from "../rpc/messages.ts"
import { keyOf } from "./journal.ts"
import { NoLinkError } from "./place.ts"
import type { Surroundings } from "./surroundings.ts"
import { type Owner, Tenant, type Waiter } from "./tenant.ts"

/** A call that the daemon refuses, in the words that its caller is told. */
export class Refusal extends Error {
  override readonly name = "Refusal"
}

/** The leases of this host, and what can be asked of them. */
export class Service {
  readonly tenants = new Map<string, Tenant>()
  readonly #around: Surroundings

  constructor(around: Surroundings) {
    this.#around = around
  }

  /**
   * Goes on with the leases in the journal. What was being acquired for an ADD that was never answered, or was being released, is
   * given back; what an earlier boot had has gone with its containers.
   */
  resume(): void {
    const { journal, bootId, log } = this.#around
    journal.sweep()
    for (const record of journal.list(log)) {
      if (record.bootId !== bootId) {
        journal.remove(keyOf(record))
        continue
      }
      const tenant = Tenant.resume(record, this.#around)
      if (record.progress === "held") this.tenants.set(tenant.key, tenant)
      else tenant.release()
    }
  }

  /** Leases addresses for an attachment, or tells those that it has. The waiter is answered now or later. Throws `Refusal`. */
  allocate(call: CallArguments, waiter: Waiter): Tenant | undefined {
    const { owner, config } = this.#read(call, false)
    const path = this.#pathOf(call)
    const known = this.tenants.get(keyOf(owner))
    if (known && !known.isGone && known.isAbout(path)) {
      const { result } = known
      if (result) waiter.answer(result)
      else known.wait(waiter)
      return result ? undefined : known
    }
    if (known) this.#drop(known)
    try {
      const tenant = Tenant.acquire(owner, path, config, this.#around)
      this.tenants.set(tenant.key, tenant)
      tenant.wait(waiter)
      return tenant
    } catch (error) {
      if (error instanceof NoLinkError || isCniError(error)) throw new Refusal(error.message)
      throw error
    }
  }

  /** Gives the leases of an attachment back. There being none is success. */
  release(call: CallArguments): void {
    const tenant = this.tenants.get(keyOf(this.#read(call, true).owner))
    if (tenant) this.#drop(tenant)
  }

  /** Looks whether an attachment has the addresses that its ADD was answered with. Throws `Refusal`; acquires nothing. */
  check(call: CallArguments): void {
    const { owner, network } = this.#read(call, true)
    const tenant = this.tenants.get(keyOf(owner))
    if (!tenant) throw new Refusal(`no lease is known for ${keyOf(owner)}`)
    if (tenant.isGone || !tenant.isAbout(this.#pathOf(call))) {
      throw new Refusal(`the lease of ${keyOf(owner)} is of another interface than "${call.ifName}" in "${call.netns}"`)
    }
    const held = tenant.leases.map(({ address }) => address)
    const isHeld = (address: string) => held.some((each) => sameIp(ipOf(each), ipOf(address)))
    const expected = network.prevResult?.ips.map(({ address }) => address) ?? []
    const found = `${held.join(", ") || "none"} is leased`
    if (held.length === 0) throw new Refusal(`the lease of ${keyOf(owner)} is lost, and there is no other yet`)
    if (expected.length > 0 && !held.every((each) => expected.some((address) => sameIp(ipOf(each), ipOf(address)))))
      throw new Refusal(`expected ${expected.filter((each) => !isHeld(each)).join(", ")}, and ${found}`)
  }

  /** Gives back the leases of a network's other attachments than the valid ones. */
  collect(call: CallArguments): void {
    const { network } = this.#read(call, true)
    if (network.attachments === undefined) return
    for (const tenant of this.#staleOf(network.name, network.attachments)) this.#drop(tenant)
  }

  #staleOf(network: string, valid: readonly Attachment[]): Tenant[] {
    const keys = new Set(
      valid.map(({ containerID, ifname }) => keyOf({ containerId: containerID, network, ifName: ifname })),
    )
    return [...this.tenants.values()].filter((tenant) => tenant.network === network && !keys.has(tenant.key))
  }

  /** Has a lease do what is due, and forgets it when it has given up. */
  onTime(tenant: Tenant): void {
    if (!tenant.onTime() && this.tenants.get(tenant.key) === tenant) this.tenants.delete(tenant.key)
  }

  /** Gives a lease back that is wanted no more, or whose holder was replaced. */
  abandon(tenant: Tenant, waiter: Waiter): void {
    if (tenant.abandon(waiter) && this.tenants.get(tenant.key) === tenant) this.#drop(tenant)
  }

  /** Forgets what has no namespace and no lease any more. */
  forgetIfOver(tenant: Tenant): void {
    if (!tenant.isOver || this.tenants.get(tenant.key) !== tenant) return
    this.#around.journal.remove(tenant.key)
    this.tenants.delete(tenant.key)
  }

  #drop(tenant: Tenant): void {
    this.tenants.delete(tenant.key)
    tenant.release()
  }

  #pathOf({ netns }: CallArguments): string {
    return `${this.#around.options.hostPrefix}${netns}`
  }

  #read(call: CallArguments, lenient: boolean): { owner: Owner; config: DhcpConfig; network: NetworkConfig } {
    try {
      return readCall(call, lenient)
    } catch (error) {
      if (isCniError(error)) throw new Refusal(error.toString())
      throw error
    }
  }
}

/** What a call is about. Throws `CniError`. */
export function readCall(
  { stdin, args, containerId, ifName }: CallArguments,
  lenient: boolean,
): { owner: Owner; config: DhcpConfig; network: NetworkConfig } {
  const raw: JsonObject = parseJsonObject(stdin, "configuration")
  const network = parseNetworkConfig(raw, { lenient })
  const config = parseDhcpConfig(raw, args, lenient)
  return { owner: { containerId, network: network.name, ifName }, config, network }
}

const ipOf = (cidr: string) => cidr.split("/")[0] ?? ""
