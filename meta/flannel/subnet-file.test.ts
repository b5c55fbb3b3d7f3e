import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { CniError } from "../../pkg/types/mod.ts"
import { refusalOf } from "../../pkg/types/testing.ts"
import { parseSubnetFile, readSubnetFile } from "./subnet-file.ts"

const parse = (...lines: string[]) => parseSubnetFile(`${lines.join("\n")}\n`, "FILE")
const whole = [
  "FLANNEL_NETWORK=10.244.0.0/16",
  "FLANNEL_SUBNET=10.244.1.1/24",
  "FLANNEL_MTU=1450",
  "FLANNEL_IPMASQ=true",
]

// As written by flanneld's WriteSubnetFile, with IPv6 after IPv4.
test("what flanneld writes for both families, host bits of the subnets taken off", () => {
  const six = ["FLANNEL_IPV6_NETWORK=fd00:244::/48", "FLANNEL_IPV6_SUBNET=fd00:244:0:1::1/64"]
  expect(parse(...whole.slice(0, 2), ...six, ...whole.slice(2))).toEqual({
    networks: ["10.244.0.0/16", "fd00:244::/48"],
    subnets: ["10.244.1.0/24", "fd00:244:0:1::/64"],
    mtu: 1450,
    ipMasq: true,
  })
})

test("networks are a list, each of them once; lines may have white space around them; unknown keys are let through", () => {
  const lines = [
    "FLANNEL_NETWORK=10.1.2.3/16,10.2.0.0/16,10.1.0.0/16",
    "  FLANNEL_SUBNET=10.1.1.1/24\r",
    "",
    "X",
    "Y=Z=A",
  ]
  expect(parse(...lines, "FLANNEL_MTU=4294967295", "FLANNEL_IPMASQ=TRUE")).toEqual({
    networks: ["10.1.0.0/16", "10.2.0.0/16"],
    subnets: ["10.1.1.0/24"],
    mtu: 4294967295,
    ipMasq: false, // only the exact text "true" is true
  })
})

describe("what is wrong is named:", () => {
  test.each<[string, string[]]>([
    [
      "it is missing FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK, FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET, FLANNEL_MTU, FLANNEL_IPMASQ",
      ["foo=bar"],
    ],
    ["it is missing FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET", [whole[0] ?? "", ...whole.slice(2)]],
    ['Cannot use FLANNEL_MTU of the subnet file "FILE": expected KEY=VALUE, found "FLANNEL_MTU"', ["FLANNEL_MTU"]],
    ['expected a network such as 10.244.0.0/16, found "10.1.1.1"', [...whole, "FLANNEL_SUBNET=10.1.1.1"]],
    ['expected a network such as 10.244.0.0/16, found "10.0.0.0/8,"', [...whole, "FLANNEL_NETWORK=10.0.0.0/8,"]],
    ['expected a number, found "4294967296"', [...whole, "FLANNEL_MTU=4294967296"]],
    ['expected a number, found ""', [...whole, "FLANNEL_MTU="]],
  ])("%s", (words, lines) => {
    expect(() => parse(...lines)).toThrow(words)
  })
})

test("what is wrong comes with where to look", () => {
  const where = "read the log of this node's flannel pod"
  expect(refusalOf(() => void parse("FLANNEL_MTU=x")).details).toBe(
    `it needs a network, a subnet, and all other keys; ${where}`,
  )
  expect(refusalOf(() => void parse(...whole, "FLANNEL_MTU=x")).details).toBe(where)
  expect(refusalOf(() => void readSubnetFile("/not/there"))).toMatchObject({ code: 11, details: where })
  expect(refusalOf(() => void readSubnetFile("/proc"))).toMatchObject({
    message: 'Cannot read the subnet file "/proc": it is a directory',
  })
})

test("any text is a node's subnets, or an error that says what is wrong", () => {
  const key = fc.constantFrom(
    "FLANNEL_NETWORK",
    "FLANNEL_SUBNET",
    "FLANNEL_IPV6_SUBNET",
    "FLANNEL_MTU",
    "FLANNEL_IPMASQ",
  )
  const value = fc.oneof(fc.string(), fc.constantFrom("10.1.0.0/16", "fd00::/64", "true", "1450", "", "=", ","))
  const line = fc.oneof(
    fc.string(),
    fc.tuple(key, value).map((pair) => pair.join("=")),
  )
  fc.assert(
    fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
      try {
        parse(...lines)
      } catch (error) {
        expect(error).toBeInstanceOf(CniError)
      }
    }),
  )
})
