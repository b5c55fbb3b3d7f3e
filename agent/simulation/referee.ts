import type { PoolFile } from "../../ipam/host-local/main.ts"
import type { Block } from "../records.ts"
import { isIn } from "./addresses.ts"
import type { Machine, Witness } from "./node.ts"
import type { Scheduler } from "./scheduler.ts"
import type { Change } from "./store.ts"

interface Holder {
  readonly machine: Machine
  readonly container: string
  /** The node has lost the block after the whole quarantine: its containers keep what they have. */
  isLost: boolean
}

/**
 * Looks at the world from outside, at each change, and notes where a promise is broken:
 * - no address is held by two containers, and no block is in the files of two nodes, unless one of them has been gone for the whole
 *   quarantine;
 * - a block comes into a file only while its record is this node's, or was until less than half of the quarantine ago: an older answer of
 *   the store is no ground to use it;
 * - a block passes to another owner only after the quarantine, with the next epoch;
 * - the record of a block goes only when its owner's file no longer has the block;
 * - no node gets a reserved block.
 */
export class Referee implements Witness {
  readonly #scheduler: Scheduler
  readonly #quarantineMs: number
  readonly #machines: readonly Machine[]
  readonly #holders = new Map<string, Holder>()
  /** The blocks of each machine's file. */
  readonly #listed = new Map<Machine, ReadonlySet<string>>()
  readonly #quarantinedAtMs = new Map<string, number>()
  /** For each block the machine whose record is "owned", or was last, and until when that was so. */
  readonly #owned = new Map<string, { readonly name: string; untilMs: number }>()
  /** Blocks that a machine has lost after the quarantine, until it gets them anew: an ADD may have read the file just before. */
  readonly #forfeited = new Map<Machine, Set<string>>()
  /** Blocks of which no address may be handed out. */
  readonly unusable = new Set<string>()
  /** What must never be, and was. */
  readonly violations: string[] = []
  /** Whether the records are those of a backup: what they say of owners proves nothing. */
  isRestored = false

  constructor(parts: { scheduler: Scheduler; quarantineMs: number; machines: readonly Machine[] }) {
    this.#scheduler = parts.scheduler
    this.#quarantineMs = parts.quarantineMs
    this.#machines = parts.machines
  }

  fileChanged(machine: Machine, file: PoolFile | undefined): void {
    const before = this.#listed.get(machine) ?? new Set()
    const now = new Set((file?.sets ?? []).flatMap(({ blocks, draining }) => [...blocks, ...draining]))
    this.#listed.set(machine, now)
    for (const block of now) {
      if (before.has(block)) continue
      this.#forfeited.get(machine)?.delete(block)
      this.#gained(machine, block)
      for (const other of this.#machines) {
        if (other === machine || !this.#listed.get(other)?.has(block) || this.#hasForfeited(other, block)) continue
        this.violations.push(`block ${block} is in the files of ${machine.name} and ${other.name}`)
      }
    }
  }

  reserved(machine: Machine, address: string, container: string): void {
    const holder = this.#holders.get(address)
    const isLost = this.#forfeitedAddress(machine, address)
    if (holder && !holder.isLost && !isLost)
      this.violations.push(`address ${address} is held by ${holder.container} and ${container}`)
    if (!holder || holder.isLost) this.#holders.set(address, { machine, container, isLost })
  }

  freed(_: Machine, address: string, container: string): void {
    if (this.#holders.get(address)?.container === container) this.#holders.delete(address)
  }

  /** A record has changed. */
  changed({ kind, key, before, after }: Change): void {
    if (kind !== "block") return
    const [was, is] = [before?.value as Block | undefined, after?.value as Block | undefined]
    if (was?.state === "owned") this.#owned.set(was.prefix, { name: was.owner.name, untilMs: this.#scheduler.nowMs })
    if (is?.state === "owned") this.#owned.set(is.prefix, { name: is.owner.name, untilMs: Number.POSITIVE_INFINITY })
    if (is?.state === "owned" && this.unusable.has(is.prefix))
      this.violations.push(`${is.owner.name} gets block ${is.prefix}, which is reserved`)
    if (is?.state === "quarantined" && was?.state !== "quarantined")
      this.#quarantinedAtMs.set(key, this.#scheduler.nowMs)
    if (was && is) this.#replaced(was, is)
    else if (was) this.#removed(was)
  }

  /** The machines whose file has a block. */
  listing(block: string): Machine[] {
    return this.#machines.filter((machine) => this.#listed.get(machine)?.has(block))
  }

  #gained(machine: Machine, block: string): void {
    if (this.isRestored) return
    const owned = this.#owned.get(block)
    const agoMs = Math.max(0, this.#scheduler.nowMs - (owned?.untilMs ?? 0))
    if (owned?.name !== machine.name || agoMs > this.#quarantineMs / 2)
      this.violations.push(`${machine.name} takes block ${block}: ${agoMs} ms ago it was that of ${owned?.name}`)
  }

  /** Whether a machine has lost a block after the quarantine. */
  #hasForfeited(machine: Machine, block: string): boolean {
    return this.#forfeited.get(machine)?.has(block) === true
  }

  #forfeitedAddress(machine: Machine, address: string): boolean {
    for (const block of this.#forfeited.get(machine) ?? []) if (isIn(address, block)) return true
    return false
  }

  #replaced(was: Block, is: Block): void {
    if (this.isRestored) return // its owner says again what it has, over an old record
    const { prefix } = was
    if (was.owner.name === is.owner.name && was.owner.uid === is.owner.uid) return
    const sinceMs = this.#quarantinedAtMs.get(`${was.pool}/${prefix}`) ?? Number.POSITIVE_INFINITY
    const waitedMs = this.#scheduler.nowMs - sinceMs
    const passes = `block ${prefix} of ${was.owner.name} passes to ${is.owner.name}`
    if (was.state !== "quarantined") this.violations.push(`${passes}, and it was ${was.state}`)
    if (waitedMs < this.#quarantineMs) this.violations.push(`${passes} after ${waitedMs} ms of quarantine`)
    if (is.epoch !== was.epoch + 1) this.violations.push(`${passes} with epoch ${is.epoch} after ${was.epoch}`)
    const former = this.#machines.find(({ owner }) => owner.name === was.owner.name)
    if (!former) return
    const forfeited = this.#forfeited.get(former) ?? new Set()
    this.#forfeited.set(former, forfeited.add(prefix))
    for (const [address, holder] of this.#holders)
      if (holder.machine === former && isIn(address, prefix)) holder.isLost = true
  }

  #removed(was: Block): void {
    if (this.isRestored) return
    const [machine] = this.#machines.filter(({ owner }) => owner.name === was.owner.name)
    if (machine && this.#listed.get(machine)?.has(was.prefix) && !this.#hasForfeited(machine, was.prefix))
      this.violations.push(
        `the record of block ${was.prefix} is removed, and the file of ${machine.name} has the block`,
      )
  }
}
