import { encodeUtf8, findBytes } from "../../pkg/engine/mod.ts"
import { SOL_SOCKET, setSocketOption, unlessErrno } from "../../pkg/libc/mod.ts"
import { attrs, type Message, NETLINK_NETFILTER, NetlinkSocket, text, u32be } from "../../pkg/netlink/mod.ts"
import { describedPlugins } from "../../suite/plugins.ts"

/** `NFT_MSG_*` with the subsystem's number, <linux/netfilter/nf_tables.h>. `NEWGEN` ends a transaction. */
const [NEWTABLE, DELTABLE, DELCHAIN, DELRULE, NEWGEN] = [0xa00, 0xa02, 0xa05, 0xa08, 0xa0f]
/** The deletions above, `NFT_MSG_DELSET` and `NFT_MSG_DELSETELEM`. */
const DELETIONS = new Set([DELTABLE, DELCHAIN, DELRULE, 0xa0b, 0xa0e])
/** `NFNLGRP_NFTABLES` as a bit */
const NFTABLES_GROUP = 1 << 6
const SO_RCVBUFFORCE = 33
/** The size of the buffer for notifications that are not read yet. */
const ROOM_BYTES = 2 << 20
/** `sizeof(struct nfgenmsg)` */
const HEADER_BYTES = 4
/** `NFT_TABLE_F_DORMANT` */
const DORMANT = 1

/** The first attribute of messages about tables, chains, rules, sets and elements. */
const ofTable = attrs({ table: [1, text] })
/** `NFTA_TABLE_*` */
const tableAttributes = attrs({ flags: [2, u32be] })
/** `NFTA_GEN_*` */
const generationAttributes = attrs({ program: [3, text] })

/** The tables of `iptables-nft`, and the prefixes of this suite's chains in them. */
const IPTABLES = new Set(["filter", "nat", "mangle", "raw"])
const OUR_CHAINS = encodeUtf8("CNI-")

export interface RuleNews {
  /** Whether another program deleted an object of this suite. */
  readonly isSuspect: boolean
  /** Whether firewalld added its table. */
  readonly isFirewalld: boolean
  /** Whether notifications were lost. */
  readonly isOverrun: boolean
}

/** Receives notifications about this suite's tables in the thread's namespace, and its chains in iptables' tables. */
export class RuleWatch implements Disposable {
  readonly #socket = new NetlinkSocket(NETLINK_NETFILTER, NFTABLES_GROUP)
  /** The names of this suite's programs. Their deletions, by DEL or GC, are not losses. */
  readonly #ours = new Set(["cni", ...describedPlugins.map(({ name }) => name)])
  /** Whether the current transaction deletes an object of this suite. */
  #isLoss = false
  #isFirewalld = false

  /** Opens the socket for notifications. Throws `SyscallError`. */
  constructor() {
    unlessErrno(() => setSocketOption(this.#socket.fd, SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES), "EPERM")
  }

  get fd() {
    return this.#socket.fd
  }

  /** Processes the received notifications. Throws `SyscallError` and `NetlinkError`. */
  take(): RuleNews {
    let [isSuspect, isFirewalld, isOverrun] = [false, false, false]
    for (let messages = this.#socket.takeEvents(); messages; messages = this.#socket.takeEvents()) {
      isOverrun ||= messages.length === 0
      for (const message of messages) {
        if (message.type !== NEWGEN) this.#hear(message)
        else {
          const { program = "" } = generationAttributes.read(message.payload, HEADER_BYTES, message.payload.length)
          isSuspect ||= this.#isLoss && !this.#ours.has(program)
          isFirewalld ||= this.#isFirewalld
          this.#isLoss = false
          this.#isFirewalld = false
        }
      }
    }
    return { isSuspect, isFirewalld, isOverrun }
  }

  #hear({ type, payload }: Message): void {
    if (type !== NEWTABLE && (this.#isLoss || !DELETIONS.has(type))) return
    const { table = "" } = ofTable.read(payload, HEADER_BYTES, payload.length)
    if (type === NEWTABLE) {
      const { flags = 0 } = tableAttributes.read(payload, HEADER_BYTES, payload.length)
      this.#isFirewalld ||= table === "firewalld"
      this.#isLoss ||= table.startsWith("cni_") && (flags & DORMANT) !== 0
    } else if (table.startsWith("cni_")) this.#isLoss = true
    else if (IPTABLES.has(table)) this.#isLoss = type === DELTABLE || findBytes(payload, OUR_CHAINS, 0) >= 0
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]()
  }
}
