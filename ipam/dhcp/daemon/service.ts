import {
  isCniError,
  messageOf,
  type Owner,
  ownersOf,
  parseJsonObject,
  parseNetworkConfig,
  sameIp,
} from "../../../pkg/types/mod.ts"
import { parseDhcpConfig } from "../config.ts"
import type { CallArguments } from "../rpc/messages.ts"
import type { Environment, Waiter } from "./environment.ts"
import { Holder } from "./holder.ts"
import { keyOf, type LeaseRecord, NoLinkError, namespaceLives } from "./journal.ts"

/** The refusal of a call. The caller receives its message. */
export class Refusal extends Error {
  override readonly name = "Refusal"
}

/** The holders of this host, and the methods that plugins call. */
export class Service {
  readonly holders = new Map<string, Holder>()
  readonly #env: Environment

  constructor(env: Environment) {
    this.#env = env
  }

  /**
   * Resumes the leases in the journal. Releases those whose ADD was not answered, or whose release was interrupted.
   * Removes records of an earlier boot, because their containers no longer exist. Logs leases that cannot be resumed.
   */
  resume(): void {
    const { journal, bootId, log } = this.#env
    journal.sweep()
    for (const record of journal.list(log)) {
      try {
        if (record.bootId === bootId) this.#resume(record)
        else journal.remove(keyOf(record))
      } catch (error) {
        log(`${keyOf(record)}: Cannot resume the lease: ${messageOf(error)}`)
      }
    }
  }

  #resume(record: LeaseRecord): void {
    const holder = Holder.resume(record, this.#env)
    if (record.progress === "held") this.holders.set(holder.key, holder)
    else holder.release()
  }

  /** Answers the waiter with an attachment's leases, which are acquired if it has none. Throws `Refusal`. */
  allocate(call: CallArguments, waiter: Waiter): Holder | undefined {
    const { owner, config } = this.#read(call, false)
    const path = this.#pathOf(call)
    const known = this.holders.get(keyOf(owner))
    if (known && this.#isAbout(known, path)) {
      const { result } = known
      if (result) waiter.answer(result)
      else known.wait(waiter)
      return result ? undefined : known
    }
    if (known) this.#drop(known)
    try {
      const holder = Holder.acquire(owner, path, config, this.#env)
      this.holders.set(holder.key, holder)
      holder.wait(waiter)
      return holder
    } catch (error) {
      if (error instanceof NoLinkError || isCniError(error)) throw new Refusal(error.message)
      throw error
    }
  }

  /** Releases the leases of an attachment. If it has none, does nothing. */
  release(call: CallArguments): void {
    const holder = this.holders.get(keyOf(this.#read(call, true).owner))
    if (holder) this.#drop(holder)
  }

  /** Checks that an attachment still has the addresses of its ADD. Acquires no lease. Throws `Refusal`. */
  check(call: CallArguments): void {
    const { owner, network } = this.#read(call, true)
    const holder = this.holders.get(keyOf(owner))
    if (!holder) throw new Refusal(`no lease for ${keyOf(owner)}`)
    if (!this.#isAbout(holder, this.#pathOf(call))) {
      const { namespace, link } = holder.subject
      const isMoved = !namespaceLives({ ...namespace, path: this.#pathOf(call) })
      const what = `the lease of ${keyOf(owner)} does not belong to "${call.ifName}" in "${call.netns}"`
      throw new Refusal(
        `${what}: ${isMoved ? "the path now names another namespace" : `link ${link.index}, "${link.name}", was deleted`}`,
      )
    }
    const held = holder.clients.leases.map(({ address }) => address)
    const isHeld = (address: string) => held.some((each) => sameIp(ipOf(each), ipOf(address)))
    const expected = network.prevResult?.ips.map(({ address }) => address) ?? []
    const found = `${held.join(", ") || "none"} is leased`
    if (held.length === 0) throw new Refusal(`the lease of ${keyOf(owner)} is lost, and has not been replaced yet`)
    if (expected.length > 0 && !held.every((each) => expected.some((address) => sameIp(ipOf(each), ipOf(address)))))
      throw new Refusal(`expected ${expected.filter((each) => !isHeld(each)).join(", ")}, and ${found}`)
  }

  /** Releases the leases of a network's attachments that are not in the list of valid ones. */
  collect(call: CallArguments): void {
    const { network } = this.#read(call, true)
    if (network.attachments === undefined) return
    const valid = new Set(ownersOf(network.name, network.attachments).map(keyOf))
    for (const holder of [...this.holders.values()]) {
      if (holder.subject.network === network.name && !valid.has(holder.key)) this.#drop(holder)
    }
  }

  /** Calls `onTime` of a holder, and removes the holder after a timeout of its ADD. */
  onTime(holder: Holder): void {
    if (!holder.onTime() && this.holders.get(holder.key) === holder) this.holders.delete(holder.key)
  }

  /** Removes a caller that closed its connection. Releases the leases if no other caller waits for them. */
  abandon(holder: Holder, waiter: Waiter): void {
    if (holder.abandon(waiter) && this.holders.get(holder.key) === holder) this.#drop(holder)
  }

  forgetIfOver(holder: Holder): void {
    if (!holder.isOver || this.holders.get(holder.key) !== holder) return
    this.#env.journal.remove(holder.key)
    this.holders.delete(holder.key)
  }

  /** Reports whether the namespace at a path is the holder's and has its link. */
  #isAbout({ isGone, subject: { namespace, link } }: Holder, path: string): boolean {
    return !isGone && this.#env.links.at({ namespace: { ...namespace, path }, link }).exists()
  }

  #drop(holder: Holder): void {
    this.holders.delete(holder.key)
    holder.release()
  }

  #pathOf({ netns }: CallArguments): string {
    return `${this.#env.options.hostPrefix}${netns}`
  }

  /** Reads the attachment and the configuration of a call. Throws `Refusal`. */
  #read({ stdin, args, containerId, ifName }: CallArguments, lenient: boolean) {
    try {
      const raw = parseJsonObject(stdin, "configuration")
      const network = parseNetworkConfig(raw, { lenient })
      const owner: Owner = { containerId, network: network.name, ifName }
      return { owner, config: parseDhcpConfig(raw, args, lenient), network }
    } catch (error) {
      throw isCniError(error) ? new Refusal(error.toString()) : error
    }
  }
}

const ipOf = (cidr: string) => cidr.split("/")[0] ?? ""
