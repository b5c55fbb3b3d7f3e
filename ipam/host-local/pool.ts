import { AF_INET, AF_INET6, CniError, Code, type Family, isCniError, type Route } from "../../pkg/types/mod.ts"
import { type Chooser, nextAddress } from "./allocate.ts"
import {
  isFixedElsewhere,
  type PoolFile,
  type PoolPlace,
  type PoolSet,
  poolPath,
  readPoolFile,
  refuse,
} from "./pool-file.ts"
import {
  type Address,
  formatAddress,
  isBetween,
  offset,
  parseAddress,
  parseRange,
  parseSubnet,
  type Range,
  type RangeSet,
} from "./ranges.ts"

/** A pod by which fixed addresses are found: `K8S_POD_NAMESPACE` and `K8S_POD_NAME` of `CNI_ARGS`, or `args.cni.pod`. */
export interface Pod {
  readonly namespace: string
  readonly name: string
}

/** The part of a pool that the node owns, as range sets. A block is parsed when it is needed: most calls need one. */
export class Pool {
  readonly #place: PoolPlace
  readonly #file: PoolFile

  /**
   * Reads the file. Throws code 11, and 5, as `readPoolFile`; code 7 where the addresses are those of another store than `store`: what is
   * reserved there is not known here, and the owner of the blocks looks for reservations there alone.
   */
  constructor(place: PoolPlace, store: string) {
    this.#place = place
    this.#file = readPoolFile(place)
    if (this.#file.store === store) return
    throw new CniError(
      Code.InvalidNetworkConfig,
      `Cannot use pool "${place.name}" with the reservations in "${store}": its addresses are reserved in "${this.#file.store}"`,
      { details: "a pool is one network's, and all its containers have one dataDir" },
    )
  }

  get routes(): readonly Route[] {
    return this.#file.routes
  }

  /** All blocks with addresses to hand out. */
  get rangeSets(): RangeSet[] {
    return this.#file.sets.map((set) => set.blocks.map((block) => this.#range(set, block)))
  }

  /** All addresses of the pool, those of other nodes included. */
  get whole(): RangeSet[] {
    return this.#file.sets.map(({ prefix }) => [this.#orRefuse(() => parseRange({ subnet: prefix }))])
  }

  /** The addresses that a pod keeps. Throws code 11 while this node has not got them. */
  fixedFor({ namespace, name }: Pod, ifName: string): Address[] {
    const key = `${namespace}/${name}/${ifName}`
    if (isFixedElsewhere(this.#file, key)) throw refuse(this.#place, `the fixed address of "${key}" is not this node's`)
    return (this.#file.fixed[key] ?? []).map((text) => {
      const address = parseAddress(text)
      if (!address) throw refuse(this.#place, `the fixed address "${text}" is not an IP address`)
      return address
    })
  }

  /**
   * The ranges for one ADD. Of each set: the blocks from the cursor's on, up to the first with a free address, or all blocks if all
   * are full; and the blocks of the addresses that the container must get.
   */
  choose(chooser: Chooser, wanted: readonly Address[], fixed: readonly Address[]): RangeSet[] {
    return this.#file.sets.map((set, index) => {
      const ranges = this.#upToFree(set, chooser, chooser.cursor(index))
      for (const address of wanted) {
        const isThere = ranges.some(({ start, end }) => isBetween(address, start, end))
        if (!isThere && set.blocks.includes(blockOf(set, address))) ranges.push(this.#range(set, blockOf(set, address)))
      }
      for (const address of fixed) if (address.family === familyOf(set)) ranges.push(this.#fixedRange(set, address))
      return ranges
    })
  }

  /** The error for a set without a free address. */
  full(index: number): CniError {
    const { blocks = [], draining = [], prefix } = this.#file.sets[index] ?? {}
    const counts = `blocks owned: ${blocks.length}, given back: ${draining.length}`
    return refuse(this.#place, `no address of ${prefix} is free on this node (${counts})`)
  }

  /** The blocks from the cursor's on, the first after the last, up to the one with the next free address. */
  #upToFree(set: PoolSet, chooser: Chooser, cursor: Address | undefined): Range[] {
    const { blocks } = set
    const first = cursor ? Math.max(blocks.indexOf(blockOf(set, cursor)), 0) : 0
    const ranges: Range[] = []
    for (let step = 0; step < blocks.length; step++) {
      const range = this.#range(set, blocks[(first + step) % blocks.length] ?? "")
      ranges.push(range)
      const isCurrent = step === 0 && cursor !== undefined && isBetween(cursor, range.start, range.end)
      const rest = isCurrent ? { ...range, start: offset(cursor, 1n) } : range
      if (nextAddress([rest], undefined, (first, last) => chooser.nextFree(first, last))) break
    }
    return ranges
  }

  #range({ prefix, blockLength, gateway, reserved }: PoolSet, block: string): Range {
    return this.#orRefuse(() => {
      if (!String(block).endsWith(`/${blockLength}`)) {
        throw refuse(this.#place, `"${block}" is not a block with a prefix length of ${blockLength}`)
      }
      const range = gateway === undefined ? parseRange({ subnet: block }) : rangeOnLink(prefix, gateway, block)
      const reservedHere = reserved.flatMap((text) => parseAddress(text) ?? [])
      return reservedHere.length === 0 ? range : { ...range, reserved: [...range.reserved, ...reservedHere] }
    })
  }

  #fixedRange({ prefix, gateway }: PoolSet, address: Address): Range {
    if (gateway === undefined) {
      throw refuse(this.#place, `${formatAddress(address)} is fixed, and ${prefix} has no gateway for it`)
    }
    return this.#orRefuse(() => ({ ...parseRange({ subnet: prefix, gateway }), start: address, end: address }))
  }

  /** Turns the error of a wrong value in the pool's file, such as a block with host bits set, into a refusal of the pool (code 11). */
  #orRefuse(read: () => Range): Range {
    try {
      return read()
    } catch (error) {
      throw isCniError(error, Code.InvalidNetworkConfig)
        ? refuse(this.#place, `"${poolPath(this.#place)}": ${error.message}`)
        : error
    }
  }
}

/** The range of a block on a link that all nodes share: subnet, network address and broadcast address are those of the pool. */
function rangeOnLink(prefix: string, gateway: string, block: string): Range {
  const { network, last } = parseSubnet(block)
  const whole = parseRange({ subnet: prefix, gateway })
  // The pool's first address is its network's own: of IPv6 it is the anycast address of all routers, RFC 4291 2.6.1.
  return { ...whole, start: network.value < whole.start.value ? whole.start : network, end: last }
}

function familyOf({ prefix }: PoolSet): Family {
  return prefix.includes(":") ? AF_INET6 : AF_INET
}

/** The prefix of the block that an address lies in, owned or not; "" for an address of the other family. */
function blockOf(set: PoolSet, { family, value }: Address): string {
  if (family !== familyOf(set)) return ""
  const hostBits = BigInt((family === AF_INET ? 32 : 128) - set.blockLength)
  return `${formatAddress({ family, value: (value >> hostBits) << hostBits })}/${set.blockLength}`
}
