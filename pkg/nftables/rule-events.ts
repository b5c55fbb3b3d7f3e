import { SOL_SOCKET, setSocketOption, unlessErrno } from "../libc/mod.ts"
import { type Message, NETLINK_NETFILTER, NetlinkSocket } from "../netlink/mod.ts"
import { generationAttributes } from "./attributes.ts"
import { attributesOf } from "./netfilter.ts"
import type { Generation } from "./transaction.ts"

/** `NFT_MSG_NEWGEN`: the last notification of each transaction. */
const NFT_MSG_NEWGEN = 0xa0f
/** `NFNLGRP_NFTABLES` as a bit. */
const NFTABLES_GROUP = 1 << 6
const SO_RCVBUFFORCE = 33
/** What is kept of notifications until it is read. */
const ROOM_BYTES = 2 << 20

/** One transaction of any program, by those of its notifications that are wanted. */
export interface RuleChange {
  readonly messages: readonly Message[]
  /** The rule set's generation after it. */
  readonly generation: Generation
}

/** The kernel's notifications about changes of the rule set in the thread's namespace, like `nft monitor`. */
export class RuleEvents implements Disposable {
  readonly #socket: NetlinkSocket
  readonly #isWanted: (message: Message) => boolean
  #open: Message[] = []

  /** Listens from now on, to messages that `isWanted`. Throws `SyscallError`. */
  constructor(isWanted: (message: Message) => boolean) {
    this.#socket = new NetlinkSocket(NETLINK_NETFILTER, NFTABLES_GROUP)
    this.#isWanted = isWanted
    unlessErrno(() => setSocketOption(this.#socket.fd, SOL_SOCKET, SO_RCVBUFFORCE, ROOM_BYTES), "EPERM")
  }

  get fd() {
    return this.#socket.fd
  }

  /**
   * Takes the transactions that are whole by now and have something wanted. Undefined when some notifications were lost: look at the
   * rule set itself.
   */
  take(): RuleChange[] | undefined {
    const changes: RuleChange[] = []
    for (let messages = this.#socket.takeEvents(); messages; messages = this.#socket.takeEvents()) {
      if (messages.length === 0) {
        this.#open = []
        return undefined
      }
      for (const message of messages) {
        if (message.type !== NFT_MSG_NEWGEN) {
          if (this.#isWanted(message)) this.#open.push(message)
          continue
        }
        const { id = 0 } = generationAttributes.decode(attributesOf(message))
        if (this.#open.length > 0) changes.push({ messages: this.#open, generation: id as Generation })
        this.#open = []
      }
    }
    return changes
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]()
  }
}
