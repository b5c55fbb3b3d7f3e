import { describe, expect, test } from "bun:test"
import { CniError, Code, type Owner } from "../types/mod.ts"
import { refusalOf } from "../types/testing.ts"
import { Failures, Undo } from "../undo/mod.ts"
import type { BackendName, ForeignRules, RuleBackend } from "./backend.ts"
import { OwnedRules } from "./owned-rules.ts"

const owner: Owner = { network: "lab", containerId: "c1", ifName: "eth0" }
type Verb = "add" | "check" | "remove" | "gc" | "isUsable" | "mayHold"
/** The exceptions of a backend, by verb. `false` makes the verb return false. */
type Answers = Partial<Record<Verb, Error | false>>

const feature = { rules: "lights", does: () => "light", needs: "the kernel needs lamps", key: "backend" }

/** Returns rules with fake backends that give these answers, and the list of calls. */
function play(nftables: Answers | undefined, iptables: Answers | undefined, other?: Answers) {
  const said: string[] = []
  const place = (name: string, answers: Answers): RuleBackend<{ owner: Owner }, string, string> => {
    const answer = (verb: Verb) => {
      said.push(`${name} ${verb}`)
      if (answers[verb] instanceof Error) throw answers[verb]
      return answers[verb] !== false
    }
    return {
      isUsable: () => answer("isUsable"),
      mayHold: () => answer("mayHold"),
      add() {
        answer("add")
        return name
      },
      check: () => void answer("check"),
      remove: () => void answer("remove"),
      gc: () => void answer("gc"),
    }
  }
  const rules = new OwnedRules(
    feature,
    { forgetTables: () => said.push("forget") },
    {
      nftables: nftables && place("nftables", nftables),
      ...(iptables && { iptables: place("iptables", iptables) }),
      otherSuite: other && (place("other", other) as ForeignRules<{ owner: Owner }, string>),
    },
  )
  return { rules, said }
}

const refused = (why = "EPERM") => new Error(why)
const add = (played: ReturnType<typeof play>, asked?: BackendName) =>
  played.rules.add({ owner }, asked, new Undo(() => {}))

describe("ADD", () => {
  test("takes nf_tables, and iptables where it is asked for; the list of tables is read again", () => {
    for (const [asked, taken] of [
      [undefined, "nftables"],
      ["nftables", "nftables"],
      ["iptables", "iptables"],
    ] as const) {
      const played = play({}, {})
      expect(add(played, asked)).toBe(taken)
      expect(played.said).toEqual(["forget", `${taken} add`])
    }
  })

  test("takes iptables where the kernel has no nf_tables, or not what the rules need, unless nf_tables is asked for", () => {
    expect(add(play(undefined, {}))).toBe("iptables")
    expect(add(play({ add: refused(), isUsable: false }, {}))).toBe("iptables")
    expect(refusalOf(() => add(play(undefined, {}), "nftables"))).toMatchObject({
      code: 999,
      message: "Cannot light by nftables: the kernel has no nf_tables",
      details: 'load the module "nf_tables", or set "backend" to "iptables"',
    })
    expect(refusalOf(() => add(play({ add: refused(), isUsable: false }, {}), "nftables"))).toMatchObject({
      code: 999,
      message: "Cannot light by nftables: the kernel needs lamps",
      details: "EPERM",
    })
  })

  test("does not take iptables for what nf_tables refuses though it could, or where that cannot be asked", () => {
    for (const isUsable of [undefined, refused("EBUSY")])
      expect(refusalOf(() => add(play({ add: refused(), ...(isUsable && { isUsable }) }, {})))).toMatchObject({
        code: 999,
        message: "Cannot light by nftables",
        details: "EPERM",
      })
  })

  test("has both reasons when both fail, with the code and the message of the last", () => {
    const taken = new CniError(Code.TryAgainLater, "Cannot light: it is taken", { details: "by c2" })
    const lacking = { add: refused(), isUsable: false } as const
    expect(refusalOf(() => add(play(lacking, { add: taken })))).toMatchObject({
      code: 11,
      message: "Cannot light: it is taken",
      details: "by c2; nftables failed first: Cannot light by nftables: the kernel needs lamps; EPERM",
    })
  })
})

describe("CHECK", () => {
  const missing = (by: string) => new CniError(Code.Internal, `Cannot find it ${by}`)

  test("begins with the backend that ADD takes, and ends at the first place that has the rules", () => {
    const none = { check: missing("here") }
    for (const [asked, nftables, places] of [
      [undefined, none, ["nftables check", "iptables check", "other mayHold", "other check"]],
      ["nftables", none, ["nftables check", "iptables check", "other mayHold", "other check"]],
      ["iptables", none, ["iptables check", "nftables check", "other mayHold", "other check"]],
      [undefined, undefined, ["iptables check", "other mayHold", "other check"]],
    ] as const)
      for (const [count, answers] of [none, {}].entries()) {
        const { rules, said } = play(nftables, answers, {})
        rules.check({ owner }, asked)
        if (count === 0) expect(said).toEqual([...places])
        else expect(said.at(-1)).toBe("iptables check")
      }
  })

  test("keeps the error of the first place, worded where it is the kernel's", () => {
    const fails = { check: missing("by iptables") }
    expect(
      refusalOf(() => play({ check: missing("there") }, fails, { mayHold: false }).rules.check({ owner })).message,
    ).toBe("Cannot find it there")
    expect(refusalOf(() => play({ check: refused() }, fails).rules.check({ owner }))).toMatchObject({
      code: 999,
      message: "Cannot check the lights of lab/c1/eth0",
      details: "EPERM",
    })
  })
})

describe("DEL and GC", () => {
  test("look where there may be something, in all places, iptables first", () => {
    const { rules, said } = play({}, { mayHold: false }, {})
    rules.remove(owner, "hint")
    rules.gc("lab", [])
    const asked = (verb: string) => [
      "iptables mayHold",
      "nftables mayHold",
      `nftables ${verb}`,
      "other mayHold",
      `other ${verb}`,
    ]
    expect(said).toEqual([...asked("remove"), "forget", ...asked("gc")])
    play(undefined, undefined).rules.remove(owner, "hint")
  })

  test("go on when a place fails, and name each at the end, with the reasons in their order", () => {
    const busy = new CniError(Code.TryAgainLater, "Cannot change table nat", { details: "locked" })
    const { rules, said } = play(
      { remove: refused("first"), gc: refused() },
      { mayHold: refused("lost") },
      { remove: busy },
    )
    expect(refusalOf(() => rules.remove(owner, "hint"))).toMatchObject({
      code: 999,
      message:
        "3 steps failed: Cannot remove the lights of lab/c1/eth0 by iptables; Cannot remove the lights of lab/c1/eth0 by nftables; " +
        "Cannot remove the other suite's lights of lab/c1/eth0",
      details: "lost; first; Cannot change table nat; locked",
    })
    expect(said.at(-1)).toBe("other remove")
    expect(refusalOf(() => play({ gc: busy }, {}).rules.gc("lab", []))).toMatchObject({
      code: 11,
      message: 'Cannot remove the stale lights of network "lab" by nftables',
    })
  })

  test("leave errors to the caller's failures where it has some", () => {
    const failures = new Failures()
    play({ remove: refused() }, {}).rules.remove(owner, "hint", failures)
    expect(failures.any).toBe(true)
  })
})

describe("restore", () => {
  const missing = new CniError(Code.Internal, "Cannot find it")
  const restoreOne = (
    played: ReturnType<typeof play>,
    { isDry = false, toIptables = false, asked = undefined as BackendName | undefined } = {},
  ) => {
    const reports: string[] = []
    const one = {
      spec: { owner },
      asked,
      made: () => reports.push("made"),
      refuse: (error: unknown) => reports.push(String(error)),
    }
    played.rules.restore([one], { isDry, toIptables, log: () => {} })
    return reports
  }

  test("adds what CHECK misses in all places, and in a dry run only says so", () => {
    const played = play({ check: missing }, { check: missing }, { mayHold: false })
    expect(restoreOne(played, { isDry: true })).toEqual(["made"])
    expect(played.said).not.toContain("nftables add")
    expect(restoreOne(played)).toEqual(["made"])
    expect(played.said).toContain("nftables add")
  })

  test("adds nothing where a place has the rules: that of ADD, or another one", () => {
    for (const played of [
      play({}, {}),
      play({ check: missing }, {}),
      play({ check: missing }, { check: missing }, {}),
    ]) {
      expect(restoreOne(played)).toEqual([])
      expect(played.said.filter((said) => said.endsWith(" add"))).toEqual([])
    }
  })

  test("takes the backend that is asked for, and tells why it cannot", () => {
    const played = play({ check: missing }, { check: missing, add: refused("EPERM") }, { mayHold: false })
    expect(restoreOne(played, { asked: "iptables" })).toEqual(["Cannot light by iptables; EPERM"])
    expect(played.said).not.toContain("nftables add")
  })

  test("moves rules to iptables: these are there before those of nf_tables go, and stay there where iptables refuses them", () => {
    const changes = ({ said }: ReturnType<typeof play>) => said.filter((one) => / (add|remove)$/.test(one))
    const played = play({}, {})
    expect(restoreOne(played, { toIptables: true })).toEqual(["made"])
    expect(changes(played)).toEqual(["iptables add", "nftables remove"])
    const refusing = play({}, { add: refused() })
    expect(restoreOne(refusing, { toIptables: true })).toEqual(["Error: EPERM"])
    expect(changes(refusing)).toEqual(["iptables add"])
    const dry = play({}, {})
    expect(restoreOne(dry, { toIptables: true, isDry: true })).toEqual(["made"])
    expect(changes(dry)).toEqual([])
    expect(restoreOne(play({ mayHold: false }, {}), { toIptables: true })).toEqual([])
  })
})

test("STATUS is well where a backend that may be taken is usable, and tells what each lacks", () => {
  const no = { isUsable: false } as const
  for (const asked of [undefined, "nftables"] as const) play({}, no).rules.requireUsable(asked)
  for (const asked of [undefined, "iptables"] as const) play(no, {}).rules.requireUsable(asked)
  const program = 'the program "iptables-restore" is missing (Debian\'s package is called "iptables")'
  for (const [asked, by, details] of [
    [undefined, "nftables or iptables", `the kernel needs lamps; ${program}`],
    ["nftables", "nftables", "the kernel needs lamps"],
    ["iptables", "iptables", program],
  ] as const)
    expect(refusalOf(() => play(no, no).rules.requireUsable(asked))).toMatchObject({
      code: 50,
      message: `Cannot light by ${by}`,
      details,
    })
})
