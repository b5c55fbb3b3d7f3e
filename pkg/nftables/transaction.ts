import { isErrno, isShortage, SOL_SOCKET, setSocketOption, unlessErrno } from "../libc/mod.ts"
import { concat, isLost, NetlinkError, NLM_F_ACK, netfilterHeader, type Request } from "../netlink/mod.ts"
import {
  batchAttributes,
  generationAttributes,
  NFNL_MSG_BATCH_BEGIN,
  NFNL_MSG_BATCH_END,
  NFNL_SUBSYS_NFTABLES,
  NFT_MSG_GETGEN,
} from "./attributes.ts"
import { encodeOperations } from "./encode.ts"
import { attributesOf, type Netfilter } from "./netfilter.ts"
import { create, type Operation, type Table } from "./rule-set.ts"

const SO_SNDBUFFORCE = 32
/** The maximum size of a datagram that a socket sends by default: net.core.wmem_default minus overhead. */
const DEFAULT_SEND_BYTES = 128 << 10
/** The maximum number of attempts. An attempt fails only because another transaction has succeeded. */
const ATTEMPTS = 1000

/** The version of the namespace's rule set. Every transaction changes it. */
export type Generation = number & { readonly __brand: "Generation" }

/** Returns the rule set's generation. Throws `EINVAL` or `EOPNOTSUPP` if the kernel has no nf_tables. */
export function getGeneration(socket: Pick<Netfilter, "get">): Generation {
  const payload = netfilterHeader(0)
  const request = { type: NFT_MSG_GETGEN, what: "read the generation of the rule set", payload }
  return socket.get(request, (answer) => (generationAttributes.decode(attributesOf(answer)).id ?? 0) as Generation)
}

/** Reports whether the kernel has nf_tables. Throws `EPERM` without CAP_NET_ADMIN. */
export function hasNftables(socket: Pick<Netfilter, "get">): boolean {
  const generation = unlessErrno(() => getGeneration(socket), "EINVAL", "EOPNOTSUPP", "EPROTONOSUPPORT")
  return generation !== undefined // nfnetlink refuses requests to a missing subsystem
}

/**
 * Makes all changes in one transaction, like `nft -f`. Throws `NetlinkError` with the refused operation in `nft`'s
 * syntax. If `generation` is given and no longer current, throws `ERESTART`.
 */
export function commit(
  socket: Pick<Netfilter, "fd" | "transact">,
  operations: readonly Operation[],
  generation?: Generation,
): void {
  const changes = encodeOperations(operations)
  const last = changes[changes.length - 1]
  if (!last) return
  // Each operation may be refused by itself; the acknowledgement arrives after the refusals.
  last.flags = (last.flags ?? 0) | NLM_F_ACK
  sendBatch(socket, changes, generation)
}

/** Sends the messages of a transaction, the last of which must request an acknowledgement. Throws like `commit`. */
export function sendBatch(
  socket: Pick<Netfilter, "fd" | "transact">,
  changes: readonly Request[],
  generation?: Generation,
): void {
  const requests = [begin(generation), ...changes, end]
  let size = 0
  for (const { payload } of requests) size += 16 + payload.length
  if (size > DEFAULT_SEND_BYTES) setSocketOption(socket.fd, SOL_SOCKET, SO_SNDBUFFORCE, 2 * size)
  socket.transact(requests)
}

function begin(generation: Generation | undefined): Request {
  const payload = concat([netfilterHeader(0, NFNL_SUBSYS_NFTABLES), batchAttributes.encode({ generation })])
  return { type: NFNL_MSG_BATCH_BEGIN, payload, what: "change the rule set" }
}

const end: Request = {
  type: NFNL_MSG_BATCH_END,
  payload: netfilterHeader(0, NFNL_SUBSYS_NFTABLES),
  what: "change the rule set",
}

/**
 * Commits changes that do not depend on the present rule set, so other transactions do not matter. Returns true if the
 * kernel has made them. Returns false if an object already exists or is missing, in which case nothing is changed, and
 * after a lost answer, in which case all changes may have been made. Throws `NetlinkError` for other refusals.
 */
function tryCommit(socket: Pick<Netfilter, "fd" | "transact">, operations: readonly Operation[]): boolean {
  try {
    commit(socket, operations)
    return true
  } catch (error) {
    if (isErrno(error, "EEXIST", "ENOTEMPTY", "ENOENT") || isLost(error)) return false
    throw error
  }
}

/**
 * Reports whether the kernel would accept the operations of `plan`, like `nft --check`. So that nothing changes, the
 * transaction ends with an operation that the kernel must refuse: it creates `table`, which the operations before it
 * have added. An empty plan is accepted. Throws `EPERM` without CAP_NET_ADMIN, and errors other than a refusal.
 */
export function dryRun(
  socket: Pick<Netfilter, "fd" | "transact">,
  table: Table,
  plan: () => readonly Operation[],
): boolean {
  try {
    const operations = plan()
    if (operations.length > 0) commit(socket, [...operations, create.table(table)])
    return true
  } catch (error) {
    if (isErrno(error, "EEXIST")) return true // the kernel has accepted all operations before the last
    if (!isErrno(error) || isShortage(error)) throw error
    return false
  }
}

/**
 * Commits the operations that `plan` computes from the rule set, on exactly the rule set that `plan` has read. If
 * another transaction has changed it since, the kernel refuses the operations, and `plan` is called again. After a lost
 * answer `plan` is also called again, because the changes may have been made. An empty plan sends nothing. Throws
 * `NetlinkError`.
 *
 * @example
 * atomically(socket, () => listRules(socket, chain).filter(isOurs).map((rule) => remove.rule(rule)))
 */
export function atomically(socket: Pick<Netfilter, "fd" | "get" | "transact">, plan: () => readonly Operation[]): void {
  for (let attempt = 1, mayLose = true; ; attempt++) {
    const generation = getGeneration(socket)
    try {
      commit(socket, plan(), generation)
      return
    } catch (error) {
      if (isLost(error) && mayLose) {
        mayLose = false
        continue
      }
      if (!(error instanceof NetlinkError) || error.errno !== "ERESTART") throw error
      if (attempt === ATTEMPTS)
        throw new NetlinkError("change the rule set", "ERESTART", "other programs keep changing it", { willPass: true })
    }
  }
}

/**
 * Commits the operations `quick`, which do not depend on the content of the rule set, such as new elements of existing
 * sets. If `quick` is undefined or refused, calls `atomically` with `plan`. Returns whether `quick` succeeded. Throws
 * `NetlinkError`.
 *
 * @example
 * commitQuickly(socket, isComplete(socket) ? [create.elements(set, elements)] : undefined, () => planAll(readAll(socket)))
 */
export function commitQuickly(
  socket: Pick<Netfilter, "fd" | "get" | "transact">,
  quick: readonly Operation[] | undefined,
  plan: () => readonly Operation[],
): boolean {
  if (quick && tryCommit(socket, quick)) return true
  atomically(socket, plan)
  return false
}
