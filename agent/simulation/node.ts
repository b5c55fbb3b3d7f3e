import type { PoolFile } from "../../ipam/host-local/main.ts"
import { SyscallError } from "../../pkg/libc/mod.ts"
import type { Clock, Memory, NodeFiles, Reservation, Watch } from "../engine/surroundings.ts"
import type { Owner } from "../records.ts"
import { addressesOf, isIn } from "./addresses.ts"
import type { Caller } from "./link.ts"
import type { Scheduler } from "./scheduler.ts"

const EIO = 5
const ENOSPC = 28

/** Thrown at the call in which a process is killed; all that it calls later throws it again. */
export class Killed extends Error {
  override readonly name = "Killed"
}

/** What becomes of the next write of a file. */
export type WriteFault = "none" | "full disk" | "error after rename" | "killed before" | "killed after"

/** What watches a node from outside. */
export interface Witness {
  /** The file of a pool has changed: `undefined` where host-local would use none now. */
  fileChanged(node: Machine, file: PoolFile | undefined): void
  reserved(node: Machine, address: string, container: string): void
  freed(node: Machine, address: string, container: string): void
}

/** One machine: its disk, its containers, and host-local. It outlives the agent's processes. */
export class Machine {
  owner: Owner
  /** The disk. */
  readonly files = new Map<string, PoolFile | "torn">()
  memory: Memory | undefined
  readonly taken = new Map<string, string>()
  /** The containers that run, by their ids, with their addresses. */
  readonly containers = new Map<string, string>()
  /** The file that an ADD has read, which holds the lock. */
  #adding: { readonly file: PoolFile; readonly container: string } | undefined
  nextWrite: WriteFault = "none"
  bootedAtMs = 0
  boots = 1
  /** The watches of reservations that tell of the next change. */
  readonly #armed = new Set<() => void>()
  readonly #witness: Witness
  readonly #scheduler: Scheduler
  #counter = 0

  constructor(owner: Owner, scheduler: Scheduler, witness: Witness) {
    this.owner = owner
    this.#scheduler = scheduler
    this.#witness = witness
  }

  get name(): string {
    return this.owner.name
  }

  /** The file that host-local would use. */
  fileOf(pool: string): PoolFile | undefined {
    const file = this.files.get(pool)
    return file === "torn" || file?.node.machineId !== this.owner.machineId ? undefined : file
  }

  /** Changes what is on the disk. */
  putFile(pool: string, file: PoolFile | "torn" | undefined): void {
    if (file) this.files.set(pool, file)
    else this.files.delete(pool)
    this.#witness.fileChanged(this, this.fileOf(pool))
  }

  /** host-local's ADD up to where it has read the file, under the lock. */
  beginAdd(pool: string): void {
    const file = this.fileOf(pool)
    if (this.#adding || !file) return
    this.#adding = { file, container: `${this.name}.c${++this.#counter}` }
  }

  get isAdding(): boolean {
    return this.#adding !== undefined
  }

  /** The rest of ADD: an address of the file's blocks is reserved, and the lock is free. */
  endAdd(): void {
    const adding = this.#adding
    this.#adding = undefined
    if (!adding) return
    const blocks = adding.file.sets.flatMap((set) => set.blocks.map((block) => ({ set, block })))
    for (const { set, block } of blocks) {
      const address = addressesOf(block, set).find((each) => !this.taken.has(each))
      if (address === undefined) continue
      this.taken.set(address, adding.container)
      this.containers.set(adding.container, address)
      this.#witness.reserved(this, address, adding.container)
      this.#changed()
      return
    }
  }

  /** ADDs until no address is left, or until there are so many containers more. */
  fill(pool: string, count = Number.POSITIVE_INFINITY): void {
    for (let left = count; left > 0; left--) {
      const before = this.containers.size
      this.beginAdd(pool)
      this.endAdd()
      if (this.containers.size === before) return
    }
  }

  /** A container ends; its DEL frees the address. */
  delete(container: string): void {
    const address = this.containers.get(container)
    this.containers.delete(container)
    if (address === undefined) return
    this.#witness.freed(this, address, container)
    this.taken.delete(address)
    this.#changed()
  }

  /** The machine starts again: no container runs, and their reservations are as they were until GC. */
  reboot(): void {
    this.#adding = undefined
    for (const [container, address] of this.containers) this.#witness.freed(this, address, container)
    this.containers.clear()
    this.boots++
    this.bootedAtMs = this.#scheduler.nowMs
    this.#armed.clear()
  }

  /** GC of a runtime without containers of earlier boots. */
  collectGarbage(): void {
    const alive = new Set(this.containers.keys())
    for (const [address, container] of this.taken) if (!alive.has(container)) this.taken.delete(address)
    this.#changed()
  }

  /** A process' view of the node's files. */
  filesFor(caller: Caller): NodeFiles {
    const alive = <T>(work: () => T): T => {
      if (caller.isDead) throw new Killed()
      return work()
    }
    const reservations = (isWanted: (address: string) => boolean): Reservation[] =>
      [...this.taken].flatMap(([address, id]) => (isWanted(address) ? [{ address, id, ifName: "eth0" }] : []))
    return {
      owner: this.owner,
      listPools: () => alive(() => [...this.files.keys()]),
      readPool: (pool) => alive(() => this.fileOf(pool)),
      writePool: (file) => alive(() => this.#write(caller, () => this.putFile(file.pool, file))),
      removePool: (pool) => alive(() => this.#write(caller, () => this.putFile(pool, undefined))),
      fileOf: (pool) => `/var/lib/cni/pools/${pool}.json`,
      storeOf: (network) => `/var/lib/cni/networks/${network}`,
      takenAddresses: () => alive(() => [...this.taken.keys()]),
      reservations: () => alive(() => reservations(() => true)),
      reservationsIn: (_, prefix) =>
        alive(() => {
          this.endAdd() // the lock is held until the ADD has ended
          return reservations((address) => isIn(address, prefix))
        }),
      watchReservations: (_, changed) => this.#watch(caller, changed),
      readMemory: () => alive(() => this.memory),
      writeMemory: (memory) =>
        alive(() =>
          this.#write(caller, () => {
            this.memory = memory // agents write another one each time, and change none
          }),
        ),
    }
  }

  /** A process' clock. */
  clockFor(caller: Caller): Clock {
    const scheduler = this.#scheduler
    const bootedAtMs = this.bootedAtMs
    return {
      bootId: `${this.name}-boot-${this.boots}`,
      bootMs: () => scheduler.nowMs - bootedAtMs + 1,
      sleep(ms, signal) {
        const { promise, resolve } = Promise.withResolvers<void>()
        if (caller.isDead) return promise
        let isOver = signal.aborted
        const end = () => {
          isOver = true
          signal.removeEventListener("abort", end)
          resolve()
        }
        if (isOver) resolve()
        else signal.addEventListener("abort", end)
        scheduler.after(ms, {
          what: () => `${caller.name}: has slept ${ms} ms`,
          happen: end,
          isHeld: () => caller.isPaused,
          isVoid: () => caller.isDead || isOver,
        })
        return promise
      },
    }
  }

  #write(caller: Caller, put: () => void): void {
    const fault = this.nextWrite
    this.nextWrite = "none"
    const die = (): never => {
      caller.isDead = true
      throw new Killed()
    }
    if (fault === "killed before") die()
    if (fault === "full disk") throw new SyscallError("write", ENOSPC)
    put()
    if (fault === "killed after") die()
    if (fault === "error after rename") throw new SyscallError("fsync", EIO)
  }

  #watch(caller: Caller, changed: () => void): Watch {
    const tell = () => {
      this.#armed.delete(tell)
      this.#scheduler.add({
        what: () => `${caller.name}: notices changed reservations`,
        happen: changed,
        isHeld: () => caller.isPaused,
        isVoid: () => caller.isDead || isOver,
      })
    }
    let isOver = false
    return {
      arm: () => void this.#armed.add(tell),
      [Symbol.dispose]: () => {
        isOver = true
        this.#armed.delete(tell)
      },
    }
  }

  #changed(): void {
    for (const tell of [...this.#armed]) tell()
  }
}
