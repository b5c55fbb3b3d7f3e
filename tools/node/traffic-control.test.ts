import { describe, expect, test } from "bun:test"
import { type Filter, filterKinds, redirectTo } from "../../pkg/netlink/mod.ts"
import { describeFilter } from "./traffic-control.ts"

type Options = Filter["options"]

/** Encodes struct tc_gact with an action, as `tc -j filter show` prints it; <linux/tc_act/tc_gact.h>. */
const gact = (action: number) => {
  const options = new Uint8Array(4 + 20)
  options.set([24, 0, 2, 0]) // TCA_GACT_PARMS
  options[4 + 8] = action
  return { kind: "gact", options }
}
const [OK, SHOT] = [0, 2] // TC_ACT_*
const returning = (value: number) => Uint8Array.of(6, 0, 0, 0, value, 0, 0, 0) // struct sock_filter: BPF_RET | BPF_K
const everything = [{ mask: 0, value: 0, offset: 0 }]
const port25 = [{ mask: 0xffff, value: 25, offset: 20 }]
const filterOf = (kind: string, options: Options, more: Partial<Filter> = {}): Filter => ({
  ...{ kind, handle: 1, parent: 0xfffffff2, protocol: 3, priority: 1 },
  ...(options ? { options } : {}),
  ...more,
})

describe("what a filter does", () => {
  test.each<[string, Filter, ReturnType<typeof describeFilter>]>([
    ["matchall, drop", filterOf("matchall", { actions: [gact(SHOT)] }), [{ effect: "drops", isForAll: true }]],
    ["matchall, ok", filterOf("matchall", { actions: [gact(OK)] }), []],
    [
      "u32 of all, drop",
      filterOf("u32", { selector: everything, actions: [gact(SHOT)] }),
      [{ effect: "drops", isForAll: true }],
    ],
    [
      "u32 of a port, drop",
      filterOf("u32", { selector: port25, actions: [gact(SHOT)] }),
      [{ effect: "drops", isForAll: false }],
    ],
    [
      "a filter of another chain",
      filterOf("matchall", { actions: [gact(SHOT)] }, { chain: 1 }),
      [{ effect: "drops", isForAll: false }],
    ],
    [
      "flower of a protocol, drop",
      filterOf("flower", { actions: [gact(SHOT)], unknown: [{ type: 8, payload: Uint8Array.of(8, 0) }] }),
      [{ effect: "drops", isForAll: true }],
    ],
    [
      "flower of an address, drop",
      filterOf("flower", { actions: [gact(SHOT)], unknown: [{ type: 10, payload: Uint8Array.of(10, 85, 0, 2) }] }),
      [{ effect: "drops", isForAll: false }],
    ],
    [
      "a redirection",
      filterOf("u32", { selector: everything, actions: [redirectTo(7)] }),
      [{ effect: "redirects", isForAll: true, target: 7 }],
    ],
    [
      "a limit before a redirection",
      filterOf("matchall", { actions: [{ kind: "police" }, redirectTo(7)] }),
      [{ effect: "decides", isForAll: true, by: "police" }],
    ],
    [
      "a limit in u32's old form",
      filterOf("u32", { selector: port25, police: new Uint8Array() }),
      [{ effect: "decides", isForAll: false, by: "police" }],
    ],
    ["a class alone", filterOf("u32", { selector: everything, classId: 0x10001 }), []],
    [
      "a program that decides",
      filterOf("bpf", { flags: 1, id: 5, name: "cil_from_container" }),
      [{ effect: "decides", isForAll: false, by: "cil_from_container" }],
    ],
    [
      "classic BPF that drops all",
      filterOf("bpf", { flags: 1, code: returning(SHOT) }),
      [{ effect: "drops", isForAll: true }],
    ],
    ["classic BPF that lets all pass", filterOf("bpf", { flags: 1, code: returning(OK) }), []],
    [
      "classic BPF that matches all, and drops",
      filterOf("bpf", { flags: 0, code: returning(1), actions: [gact(SHOT)] }),
      [{ effect: "drops", isForAll: true }],
    ],
    [
      "classic BPF that matches none",
      filterOf("bpf", { flags: 0, code: returning(0), actions: [gact(SHOT)] }),
      [{ effect: "drops", isForAll: false }],
    ],
    ["a kind that is not known", filterOf("route", undefined), []],
  ])("%s", (_, filter, expected) => {
    expect(describeFilter(filter)).toEqual(expected)
  })

  // tc filter add dev v0 egress bpf da bytecode "1,6 0 0 2", as Linux 6.18 lists it
  test("classic BPF is read as the kernel sends it", () => {
    const sent = Uint8Array.fromHex("06000400010000000c000500060000000200000008000800" + "01000000")
    const options = filterKinds.bpf.decode(sent)
    expect(describeFilter(filterOf("bpf", options))).toEqual([{ effect: "drops", isForAll: true }])
  })
})
