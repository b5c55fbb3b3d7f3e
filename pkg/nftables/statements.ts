import { type Infer, u32 } from "../netlink/mod.ts"
import { prefixMask } from "../types/mod.ts"
import { familyNumber, policyNumber } from "./attributes.ts"
import { wordsOf } from "./data-types.ts"
import { type dataAttributes, type Expression, extensionAttributes, type UnknownExpression } from "./expressions.ts"
import { type Field, fields } from "./fields.ts"
import type { Comparison, NamedSet, Statement, Verdict } from "./rule-set.ts"

/** Returns the statement `ip protocol tcp`, which compares a field with a value. */
export function match(field: Field, op: Comparison, value: Uint8Array): Statement {
  return { kind: "match", field, op, value }
}

/** Returns `ip daddr 10.0.0.0/8`, which compares an address with a network. `ip` has no bits beyond the prefix. */
export function matchPrefix(field: Field, op: Comparison, ip: Uint8Array, length: number): Statement {
  return { kind: "prefix", field, op, ip, length }
}

/** Returns the statement `ct state established,related`, which matches if one of these flags is set. */
export function matchBits(field: Field, ...names: string[]): Statement {
  const mask = names.reduce((sum, name) => {
    const bit = field.type.bits?.[name]
    if (bit === undefined) throw new RangeError(`${field.name} has no flag "${name}"`)
    return sum | bit
  }, 0)
  return { kind: "bits", field, mask }
}

/** Returns the statement `ip saddr . ip daddr @networks`, which looks up the concatenation of the fields in a set. */
export function matchSet(fields: readonly Field[], op: Comparison, set: NamedSet): Statement {
  return { kind: "lookup", fields, op, set }
}

/**
 * Returns the statement `dnat to meta l4proto . th dport map @ports`, which translates the destination to the address,
 * or address and port, in the map. With `label`, only flows in the map get this bit of conntrack's labels: `ct label
 * set 127 dnat to …`.
 */
export function dnatMap(fields: readonly Field[], map: NamedSet, label?: number): Statement {
  return { kind: "dnat", fields, map, label }
}

/** Returns the statement `ct label 127`, which matches flows with this bit of conntrack's labels. */
export function matchLabel(bit: number): Statement {
  return { kind: "label", bit }
}

/** Returns `iifname . oifname vmap @verdicts`, which applies the map's verdict for the fields, if any. */
export function verdictMap(fields: readonly Field[], map: NamedSet): Statement {
  return { kind: "vmap", fields, map }
}

/** Returns the statement `meta mark set meta mark | 0x1000`, which sets only these bits of the packet's mark. */
export function setMark(bits: number): Statement {
  return { kind: "mark", bits, isSet: true }
}

/** Returns the statement `meta mark set meta mark & 0xffffefff`, which clears only these bits of the packet's mark. */
export function clearMark(bits: number): Statement {
  return { kind: "mark", bits, isSet: false }
}

/** Returns a match as `iptables-nft` encodes it. `info` is its struct, padded to a multiple of eight bytes. */
export function matchExtension(name: string, revision: number, info: Uint8Array): Statement {
  return { kind: "extension", name, revision, info }
}

export const masquerade: Statement = { kind: "masquerade" }
export const counter: Statement = { kind: "counter" }

export function verdict(verdict: Verdict): Statement {
  return { kind: "verdict", verdict }
}

/** `enum nft_registers`: the register of the verdict, and the first register for data. */
const NFT_REG_VERDICT = 0
const NFT_REG_1 = 1
/** `enum nft_cmp_ops` */
export const NFT_CMP = { "==": 0, "!=": 1 } as const
const NFT_LOOKUP_F_INV = 1
const NFT_BITWISE_MASK_XOR = 0
const NFT_NAT_DNAT = 1
/** `enum nft_meta_keys` */
const NFT_META_MARK = 3
/** `enum nft_ct_keys`, <linux/netfilter/nf_tables.h> */
const NFT_CT_LABELS = 13
/** `NF_CT_LABELS_MAX_SIZE`, <linux/netfilter/xt_connlabel.h>: 128 bits. */
const LABEL_BYTES = 16

/** Compiles a statement to the same expressions as `nft`. `idOf` returns the number of a set in the transaction. */
export function compile(statement: Statement, idOf: (set: NamedSet) => number): (Expression | UnknownExpression)[] {
  switch (statement.kind) {
    case "match": {
      const { field, op, value } = statement
      return [field.load(NFT_REG_1, value.length), compare(op, value)]
    }
    case "prefix":
      return comparePrefix(statement.field, statement.op, statement.ip, statement.length)
    case "bits": {
      const { field, mask } = statement
      return [field.load(NFT_REG_1, 4), maskWith(u32.encode(mask)), compare("!=", new Uint8Array(4))]
    }
    case "lookup": {
      const { fields, op, set } = statement
      const inverted = op === "!=" ? { flags: NFT_LOOKUP_F_INV } : {}
      const data = { sreg: NFT_REG_1, set: set.name, setId: idOf(set), ...inverted }
      return [...load(fields), { name: "lookup", data }]
    }
    case "dnat":
      return dnat(statement, idOf(statement.map))
    case "label": {
      const none = new Uint8Array(LABEL_BYTES)
      const loaded: Expression = { name: "ct", data: { key: NFT_CT_LABELS, dreg: NFT_REG_1 } }
      return [loaded, maskWith(labelBits(statement.bit), NFT_REG_1, NFT_BITWISE_MASK_XOR), compare("!=", none)]
    }
    case "vmap": {
      const { fields, map } = statement
      const data = { sreg: NFT_REG_1, dreg: NFT_REG_VERDICT, set: map.name, setId: idOf(map) }
      return [...load(fields), { name: "lookup", data }]
    }
    case "mark":
      return changeMark(statement.bits, statement.isSet)
    case "masquerade":
      return [{ name: "masq", data: {} }]
    case "extension": {
      const { name, revision, info } = statement
      return [{ name: "match", data: extensionAttributes.encode({ name, revision, info }) }]
    }
    case "counter":
      return [{ name: "counter", data: {} }]
    case "verdict":
      return [{ name: "immediate", data: { dreg: NFT_REG_VERDICT, data: verdictData(statement.verdict) } }]
  }
}

/** Loads fields into consecutive registers, each field at a multiple of four bytes. */
function load(fields: readonly Field[]): Expression[] {
  let word = 0
  return fields.flatMap((field) => {
    const at = register(word)
    word += wordsOf(field.type)
    const expression = field.load(at, field.type.size)
    return field.mask ? [expression, maskWith(field.mask, at, NFT_BITWISE_MASK_XOR)] : [expression]
  })
}

/** Returns the register that begins at `word` times four bytes. Registers of 16 bytes have other numbers. */
function register(word: number): number {
  return word % 4 === 0 ? NFT_REG_1 + word / 4 : 8 + word
}

function compare(op: Comparison, value: Uint8Array): Expression {
  return { name: "cmp", data: { sreg: NFT_REG_1, op: NFT_CMP[op], data: { value } } }
}

/** Returns the expression that masks a register. Like `nft`, give `operation` for a key, but not for a comparison. */
function maskWith(
  mask: Uint8Array,
  register = NFT_REG_1,
  operation?: number,
  xor: Uint8Array = new Uint8Array(mask.length),
): Expression {
  const values = { mask: { value: mask }, xor: { value: xor } }
  return { name: "bitwise", data: { sreg: register, dreg: register, operation, length: mask.length, ...values } }
}

/** Compares the prefix of an address. If the prefix has whole bytes, only these bytes are loaded. */
function comparePrefix(field: Field, op: Comparison, ip: Uint8Array, length: number): Expression[] {
  if (field.payload && length > 0 && length % 8 === 0) {
    const value = ip.subarray(0, length / 8)
    return [field.load(NFT_REG_1, value.length), compare(op, value)]
  }
  return [field.load(NFT_REG_1, ip.length), maskWith(prefixMask(ip.length, length)), compare(op, ip)]
}

/** Returns conntrack labels with one bit set, in words of the host's byte order, which is little endian here. */
function labelBits(bit: number): Uint8Array {
  return new Uint8Array(LABEL_BYTES).with(bit >> 3, 1 << (bit & 7))
}

/**
 * Returns the expressions that translate the destination. The lookup ends the rule for a flow that is not in the map,
 * so the label is set after the lookup and before the translation.
 */
function dnat({ fields, map, label }: Extract<Statement, { kind: "dnat" }>, setId: number): Expression[] {
  const [address, port] = map.value ?? []
  if (address === undefined) throw new RangeError(`map "${map.name}" holds no addresses`)
  const nat = {
    type: NFT_NAT_DNAT,
    family: address.size === 4 ? familyNumber.ip : familyNumber.ip6,
    sregAddressMin: NFT_REG_1,
    ...(port ? { sregPortMin: register(wordsOf(address)) } : {}),
  }
  return [
    ...load(fields),
    { name: "lookup", data: { sreg: NFT_REG_1, dreg: NFT_REG_1, set: map.name, setId } },
    ...(label === undefined ? [] : setLabel(label)),
    { name: "nat", data: nat },
  ]
}

/** Sets a label by the third register, because the first two contain the address and the port. */
function setLabel(bit: number): Expression[] {
  const register = NFT_REG_1 + 2
  return [
    { name: "immediate", data: { dreg: register, data: { value: labelBits(bit) } } },
    { name: "ct", data: { key: NFT_CT_LABELS, sreg: register } },
  ]
}

function changeMark(bits: number, isSet: boolean): Expression[] {
  const [mask, xor] = [u32.encode(~bits >>> 0), u32.encode(isSet ? bits : 0)]
  return [
    fields.mark.load(NFT_REG_1, 4),
    maskWith(mask, NFT_REG_1, NFT_BITWISE_MASK_XOR, xor),
    { name: "meta", data: { key: NFT_META_MARK, sreg: NFT_REG_1 } },
  ]
}

type Data = Infer<typeof dataAttributes>

/** `enum nft_verdicts`, with negative numbers as the 32 bits that are sent. */
const NFT_JUMP = -3 >>> 0
const NFT_GOTO = -4 >>> 0
const NFT_RETURN = -5 >>> 0

/** Returns a verdict as the kernel encodes it, for a rule or a map. */
export function verdictData(verdict: Verdict): Data {
  if (verdict === "return") return { verdict: { code: NFT_RETURN } }
  if (typeof verdict === "string") return { verdict: { code: policyNumber[verdict] } }
  if ("goto" in verdict) return { verdict: { code: NFT_GOTO, chain: verdict.goto } }
  return { verdict: { code: NFT_JUMP, chain: verdict.jump } }
}

/** Decodes a verdict. Returns `undefined` if none exists, or for an unknown verdict. */
export function readVerdict({ verdict }: Data): Verdict | undefined {
  const { code, chain = "" } = verdict ?? {}
  if (code === NFT_RETURN) return "return"
  if (code === NFT_GOTO) return { goto: chain }
  if (code === NFT_JUMP) return { jump: chain }
  if (code === policyNumber.drop) return "drop"
  return code === policyNumber.accept ? "accept" : undefined
}
