import { u32 } from "../../pkg/netlink/mod.ts"
import { extensionAttributes, type FoundRule, type Table } from "../../pkg/nftables/mod.ts"
import { type Action, actionOf, DROP, type Evaluated, verdictAction } from "./actions.ts"
import { type Bits, compareBits, isKnown, knownBits, maskedBits } from "./bits.ts"
import type { Choices } from "./choices.ts"
import { type ReadExpression, readExpression } from "./expressions.ts"
import { matchOf } from "./extension-matches.ts"
import { targetOf } from "./extension-targets.ts"
import { fibOf } from "./fib.ts"
import type { Kernel } from "./kernel.ts"
import { natOf, portOf } from "./nat.ts"
import { agreeingPacket, ctOf, metaOf, type Packet, payloadOf } from "./packet.ts"
import { Registers } from "./registers.ts"

/** Evaluates a rule for a packet as the kernel does: one expression after the other, on registers. */
export function evaluate(rule: FoundRule, packet: Packet, kernel: Kernel, choices: Choices): Evaluated<Packet> {
  const run = new Run(rule.chain.table, packet, kernel, choices)
  for (const expression of rule.expressions) {
    const outcome = run.step(readExpression(expression))
    if (outcome === "break") return { matches: "no", packet: run.packet, unknown: [], notJudged: [] }
    if (outcome !== undefined)
      return {
        matches: run.matches,
        action: outcome,
        packet: run.packet,
        unknown: run.unknown,
        notJudged: run.notJudged,
      }
  }
  return { matches: run.matches, packet: run.packet, unknown: run.unknown, notJudged: run.notJudged }
}

/** The outcome of an expression: "break" if it does not match, the rule's action, or undefined to continue. */
type Outcome = "break" | Action | undefined
type Of<N extends ReadExpression["name"]> = Extract<ReadExpression, { name: N }>["data"]

/** Expressions that neither decide about the packet nor change values that rules read. */
const WITHOUT_EFFECT = new Set(["log", "last", "dup", "flow_offload"])
/** Expressions whose result depends on facts that this tool cannot know. */
const ASKING = new Set("limit quota connlimit socket osf tunnel xfrm rt exthdr inner".split(" "))
/** Expressions that hand the packet to another component. */
const HANDS_ON = new Set(["queue", "tproxy", "synproxy", "fwd"])
/** Types of `objref` objects that may end a rule: quota, limit, connlimit; `NFT_OBJECT_*`. */
const LIMITING = new Set([2, 4, 5])
/** `NFT_LOOKUP_F_INV` and `NFT_RANGE_NEQ`; the key `mark` of `meta` and of `ct`. */
const INVERTED = 1
const META_MARK = 3
const CT_MARK = 3
const CT_LABELS = 13
const CT_ZONE = 17

/** The evaluation of one rule for one packet. */
class Run {
  packet: Packet
  readonly unknown: string[] = []
  /** Effects of the rule that this tool does not evaluate. */
  readonly notJudged: string[] = []
  readonly #registers = new Registers()
  readonly #table: Table
  readonly #kernel: Kernel
  readonly #choices: Choices

  constructor(table: Table, packet: Packet, kernel: Kernel, choices: Choices) {
    this.#table = table
    this.packet = packet
    this.#kernel = kernel
    this.#choices = choices
  }

  get matches(): "yes" | "perhaps" {
    return this.unknown.length === 0 ? "yes" : "perhaps"
  }

  step({ name, data }: ReadExpression): Outcome {
    switch (name) {
      case "payload":
        if (data.dreg === undefined) return this.#cannotFollow("a change of the packet's header")
        return this.#load(data.dreg, payloadOf(this.packet, data.base ?? 0, data.offset ?? 0, data.length ?? 0))
      case "meta":
        if (data.dreg !== undefined) return this.#load(data.dreg, metaOf(this.packet, data.key ?? 0, this.#kernel))
        if (data.key === META_MARK) this.#change({ ...this.packet, mark: this.#registers.read(data.sreg ?? 1, 4) })
        return undefined
      case "ct":
        if (data.dreg !== undefined) return this.#load(data.dreg, ctOf(this.packet, data.key ?? 0, data.direction))
        if (data.key === CT_MARK)
          this.#change({ ...this.packet, connectionMark: this.#registers.read(data.sreg ?? 1, 4) })
        if (data.key === CT_LABELS)
          this.#change({ ...this.packet, connectionLabels: this.#registers.read(data.sreg ?? 1, 16) })
        return data.key === CT_ZONE ? this.#cannotFollow("a zone of connections") : undefined
      case "fib":
        return this.#load(data.dreg ?? 1, fibOf(this.packet, this.#kernel, data.result ?? 0, data.flags ?? 0))
      case "bitwise":
        return this.#bitwise(data)
      case "byteorder":
        return this.#byteorder(data)
      case "cmp":
        return this.#compare(data.sreg ?? 1, data.op ?? 0, data.data?.value ?? new Uint8Array(0))
      case "range":
        return this.#range(data)
      case "lookup":
        return this.#lookup(data)
      case "numgen":
        return this.#choose(data.dreg ?? 1, data.modulus ?? 1, data.offset ?? 0)
      case "hash": // the hash usually depends on the unknown source port
        return this.#choose(data.dreg ?? 1, data.modulus ?? 1, data.offset ?? 0)
      case "immediate":
        if (data.data?.value) return this.#load(data.dreg ?? 1, knownBits(data.data.value))
        return actionOf(data.data?.verdict?.code ?? 0, data.data?.verdict?.chain)
      case "nat":
        return natOf(data, this.#registers)
      case "masq":
        return { kind: "source", from: "output", isOpen: false }
      case "redir":
        return { kind: "destination", from: "input", ...portOf(this.#registers, data.portMin, data.portMax) }
      case "dynset": // adds an element to a set; expressions of the element may end the rule
        return data.expression || data.expressions ? this.#cannotTell(`set "${data.set}"`) : undefined
      case "objref":
        return LIMITING.has(data.type ?? 0) ? this.#cannotTell("a limit") : undefined
      case "counter":
        return undefined
      case "":
        return this.#named(data.name, data.data)
      default:
        return this.#cannotTell(name satisfies never)
    }
  }

  /** Evaluates an expression of which only the name is known, or an iptables extension. */
  #named(name: string, data: Uint8Array): Outcome {
    if (WITHOUT_EFFECT.has(name)) return undefined
    if (name === "reject") return DROP
    if (HANDS_ON.has(name)) return { kind: "other", what: name }
    if (name === "notrack") {
      if (this.unknown.length === 0) this.packet = { ...this.packet, tracking: "untracked" }
      return undefined
    }
    if (name !== "match" && name !== "target") {
      this.#registers.forget(name)
      return ASKING.has(name) ? this.#cannotTell(name) : this.#cannotFollow(`the expression "${name}"`)
    }
    const { name: extension = "", revision = 0, info = new Uint8Array(0) } = extensionAttributes.decode(data)
    if (name === "target") {
      const { action, packet, notJudged } = targetOf(extension, revision, info, this.packet)
      if (packet) this.#change(packet)
      if (notJudged !== undefined) this.#cannotFollow(notJudged)
      return action
    }
    const matches = matchOf(extension, revision, info, this.packet, this.#kernel)
    if (matches === "by chance") return this.#choices.take(2) === 0 ? undefined : "break"
    if (matches === undefined) return this.#cannotTell(`"${extension}"`)
    return matches ? undefined : "break"
  }

  #cannotTell(what: string): undefined {
    if (!this.unknown.includes(what)) this.unknown.push(what)
    return undefined
  }

  #cannotFollow(what: string): undefined {
    this.notJudged.push(what)
    return undefined
  }

  #load(register: number, bits: Bits | "break"): Outcome {
    if (bits === "break") return "break"
    this.#registers.load(register, bits)
    return undefined
  }

  /** Replaces the packet. If a match is unknown, only values that are the same in both cases stay known. */
  #change(packet: Packet): void {
    this.packet = this.unknown.length === 0 ? packet : agreeingPacket(this.packet, packet)
  }

  #bitwise({ sreg = 1, dreg = 1, length = 4, operation = 0, mask, xor }: Of<"bitwise">): Outcome {
    if (operation !== 0) return this.#loadUnknown(dreg, "a shifted value")
    const bits = this.#registers.read(sreg, length)
    return this.#load(
      dreg,
      maskedBits(bits, mask?.value ?? new Uint8Array(length).fill(0xff), xor?.value ?? new Uint8Array(length)),
    )
  }

  #loadUnknown(register: number, what: string): undefined {
    this.#registers.loadUnknown(register, what)
    return undefined
  }

  /** Converts between host and network byte order, in units of `size` bytes: reverses them on little-endian hosts. */
  #byteorder({ sreg = 1, dreg = 1, length = 4, size = 4 }: Of<"byteorder">): Outcome {
    const { value, known, ...rest } = this.#registers.read(sreg, length)
    const swapped = (from: Uint8Array) => from.map((_, at) => from[at - (at % size) + size - 1 - (at % size)] ?? 0)
    return this.#load(dreg, { ...rest, value: swapped(value), known: swapped(known) })
  }

  #compare(register: number, op: number, value: Uint8Array): Outcome {
    const bits = this.#registers.read(register, value.length)
    const holds = holdsFor(compareBits(bits, value), op)
    if (holds !== undefined) return holds ? undefined : "break"
    return this.#undecided(bits)
  }

  /** Handles a comparison of unknown bits: chooses an outcome if they are random, or else notes that it is unknown. */
  #undecided({ isRandom, what = "a value" }: Bits): Outcome {
    if (isRandom) return this.#choices.take(2) === 0 ? undefined : "break"
    return this.#cannotTell(what)
  }

  #range({ sreg = 1, op = 0, from, to }: Of<"range">): Outcome {
    const [least, most] = [from?.value ?? new Uint8Array(0), to?.value ?? new Uint8Array(0)]
    const bits = this.#registers.read(sreg, least.length)
    if (!isKnown(bits)) return this.#undecided(bits)
    const isWithin = compareBits(bits, least) !== -1 && compareBits(bits, most) !== 1
    return isWithin === (op !== INVERTED) ? undefined : "break"
  }

  #lookup({ set = "", sreg = 1, dreg, flags = 0 }: Of<"lookup">): Outcome {
    const layout = this.#kernel.layoutOf(this.#table, set)
    const key = this.#registers.read(sreg, layout?.keyLength ?? 4)
    const isInverted = (flags & INVERTED) !== 0
    if (!layout || !isKnown(key)) {
      if (layout && !this.#kernel.mayHave(this.#table, set, layout, key)) return isInverted ? undefined : "break"
      if (dreg !== undefined && dreg !== 0) this.#registers.loadUnknown(dreg, `map "${set}"`)
      this.#cannotTell(key.what ?? `set "${set}"`)
      return dreg === 0 ? { kind: "other", what: `map "${set}"` } : undefined
    }
    const element = this.#kernel.elementOf(this.#table, set, layout, Uint8Array.from(key.value))
    if ((element !== undefined) === isInverted) return "break"
    if (dreg === undefined || element === undefined) return undefined
    if (dreg === 0) return element.verdict === undefined ? undefined : verdictAction(element.verdict)
    return this.#load(dreg, knownBits(element.value?.[0] ?? new Uint8Array(0)))
  }

  #choose(register: number, modulus: number, offset: number): Outcome {
    return this.#load(register, knownBits(u32.encode(offset + this.#choices.take(Math.max(1, modulus)))))
  }
}

/** Reports whether a comparison holds, by `enum nft_cmp_ops`: eq, neq, lt, lte, gt, gte. Undefined if unknown. */
function holdsFor(order: ReturnType<typeof compareBits>, op: number): boolean | undefined {
  if (order === undefined) return undefined
  if (order === "unequal") return op === 0 ? false : op === 1 ? true : undefined
  return [order === 0, order !== 0, order < 0, order <= 0, order > 0, order >= 0][op]
}
