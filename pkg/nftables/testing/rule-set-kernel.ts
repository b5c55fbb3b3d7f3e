import type { Fd } from "../../libc/mod.ts"
import {
  concat,
  type Message,
  NetlinkError,
  type NetlinkSocket,
  netfilterHeader,
  type Request,
} from "../../netlink/mod.ts"
import { dumping } from "../../netlink/testing.ts"
import { elementListAttributes, familyNumber, ruleAttributes, setAttributes } from "../attributes.ts"
import { joinParts } from "../data-types.ts"
import type { Element, NamedSet } from "../rule-set.ts"
import { verdictData } from "../statements.ts"
import { answerGeneration } from "../testing.ts"
import { elementUserdata } from "../userdata.ts"

/** A rule of the kernel. `family` is the number of the family of its table. */
export interface KernelRule {
  readonly family: number
  readonly table: string
  readonly chain: string
  readonly handle: bigint
  readonly comment: string
  readonly expressions: NonNullable<ReturnType<typeof ruleAttributes.decode>["expressions"]>
}

/** The content of a kernel: sets with their elements, rules, and the names of chains. */
export interface RuleSet {
  readonly sets: readonly { readonly set: NamedSet; readonly elements: readonly Element[] }[]
  readonly rules?: readonly KernelRule[]
  readonly chains?: readonly string[]
}

/** `NFT_MSG_GET*`, <linux/netfilter/nf_tables.h> */
const [GETTABLE, GETCHAIN, GETRULE, GETSET, GETSETELEM, GETGEN] = [0xa01, 0xa04, 0xa07, 0xa0a, 0xa0d, 0xa10]
const NLM_F_DUMP = 0x300

/** Returns the name of the family in a request, whose first byte is the family's number. */
const familyOf = ({ payload }: Request) =>
  Object.entries(familyNumber).find(([, number]) => number === payload[0])?.[0] ?? ""

/**
 * Replaces nf_tables in a test: answers from a rule set, and records requests and changes without making them. The
 * first transactions are refused with `refusals`, in order.
 */
export class RuleSetKernel {
  /** The requests: "get ip ports", "list ip ports", "look at ip ports", "sets ip". */
  readonly asked: string[] = []
  /** The accepted transactions, each in `nft`'s syntax. */
  readonly sent: string[][] = []
  readonly #rules: () => RuleSet
  readonly #refusals: string[]

  constructor(rules: RuleSet | (() => RuleSet), ...refusals: string[]) {
    this.#rules = typeof rules === "function" ? rules : () => rules
    this.#refusals = refusals
  }

  get socket(): NetlinkSocket {
    const socket: Pick<NetlinkSocket, "fd" | "get" | "dump" | "transact"> = {
      fd: -1 as Fd,
      get: (request, read) => read(this.#get(request)),
      dump: dumping((request) => this.#list(request)),
      transact: (requests) => this.#transact(requests),
    }
    return socket as NetlinkSocket
  }

  #get(request: Request): Message {
    if (request.type === GETGEN) return answerGeneration(request, (answer) => answer)
    if (request.type === GETSETELEM) {
      const [first] = this.#elements(request, ((request.flags ?? 0) & NLM_F_DUMP) !== 0)
      if (first) return first
    }
    if (request.type === GETCHAIN && this.#rules().chains?.some((name) => request.what.endsWith(` ${name}`)))
      return message(new Uint8Array())
    throw new NetlinkError(request.what, "ENOENT")
  }

  #list(request: Request): Message[] {
    const { sets, rules = [] } = this.#rules()
    if (request.type === GETTABLE || request.type === GETCHAIN) return [] // other programs have no tables or chains
    if (request.type === GETSET) {
      this.asked.push(`sets ${familyOf(request)}`)
      return sets
        .filter(({ set }) => set.table.family === familyOf(request))
        .map(({ set }) => message(setAttributes.encode({ table: set.table.name, name: set.name })))
    }
    if (request.type === GETRULE) {
      const { table, chain } = ruleAttributes.decode(request.payload.subarray(4))
      const isAsked = (rule: KernelRule) => rule.table === table && (chain === undefined || rule.chain === chain)
      return rules
        .filter((rule) => rule.family === request.payload[0] && isAsked(rule))
        .map(({ family: _, comment, ...rule }) => {
          return message(ruleAttributes.encode({ ...rule, userdata: elementUserdata({ comment, note: undefined }) }))
        })
    }
    return this.#elements(request, false)
  }

  #elements(request: Request, isGlance: boolean): Message[] {
    const { table, set: name, elements } = elementListAttributes.decode(request.payload.subarray(4))
    const found = this.#rules().sets.find(({ set }) => {
      return set.name === name && set.table.name === table && set.table.family === familyOf(request)
    })
    const wanted = elements?.map(({ key }) => key?.value?.toHex())
    this.asked.push(`${wanted ? "get" : isGlance ? "look at" : "list"} ${familyOf(request)} ${name}`)
    if (!found) throw new NetlinkError(request.what, "ENOENT")
    const { set } = found
    const keyed = found.elements.map((element) => ({ element, key: joinParts(set.key, element.key) }))
    const listed = keyed
      .filter(({ key }) => !wanted || wanted.includes(key.toHex()))
      .slice(0, isGlance ? 10 : undefined)
    if (wanted && listed.length === 0) throw new NetlinkError(request.what, "ENOENT")
    const encoded = listed.map(({ element, key }) => ({
      key: { value: key },
      data: element.verdict
        ? verdictData(element.verdict)
        : element.value && { value: joinParts(set.value ?? [], element.value) },
      userdata: elementUserdata({ comment: element.comment, note: element.note }),
    }))
    return [message(elementListAttributes.encode({ table: set.table.name, set: set.name, elements: encoded }))]
  }

  #transact(requests: readonly Request[]): void {
    const refusal = this.#refusals.shift()
    if (refusal) throw new NetlinkError("transact", refusal)
    this.sent.push(requests.slice(1, -1).map(({ what }) => what))
  }
}

function message(attributes: Uint8Array): Message {
  return { type: 0, flags: 0, sequence: 0, payload: concat([netfilterHeader(2), attributes]) }
}
