import { describe, expect } from "bun:test"
import { fail, testWith } from "../lab/mod.ts"
import { Limited } from "./limited.ts"

const both = { ingressRate: "8M", egressRate: "8M" }
const needs = ["ifb", "tbf"] as const
const filterOf = ["parent", "ffff:", "protocol", "all", "prio", "1"]
const withSubnets = { shapedSubnets: ["10.9.0.0/16", "fd00:1::/56"] }

describe("#28 CHECK of bandwidth names it when", () => {
  const tc =
    (...args: string[]) =>
    ({ host, hostEnd, ifbName }: Limited) =>
      host.exec(
        "tc",
        args.map((arg) => ({ END: hostEnd, IFB: ifbName })[arg] ?? arg),
      )
  const ip =
    (...args: string[]) =>
    ({ host, ifbName }: Limited) =>
      host.exec(
        "ip",
        args.map((arg) => (arg === "IFB" ? ifbName : arg)),
      )
  const changed = ["root", "handle", "1:", "tbf", "rate", "9mbit", "burst", "32kb", "limit", "57768"]

  const cases: [string, object, (limited: Limited) => Promise<unknown>, string][] = [
    [
      "the limit towards the container no longer exists",
      {},
      tc("qdisc", "del", "dev", "END", "root"),
      "expected tbf 1: rate 8000000bit burst 32768b limit 57768b, found none",
    ],
    [
      "the limit towards the container is another",
      {},
      tc("qdisc", "replace", "dev", "END", ...changed),
      "found tbf 1: rate 9000000bit",
    ],
    [
      "another qdisc is in its place",
      {},
      tc("qdisc", "replace", "dev", "END", "root", "handle", "5:", "bfifo"),
      "found bfifo 5:",
    ],
    [
      "the limit from the container no longer exists",
      {},
      tc("qdisc", "del", "dev", "IFB", "root"),
      "expected tbf 1: rate 8000000bit",
    ],
    [
      "the limit from the container is another",
      {},
      tc("qdisc", "replace", "dev", "IFB", ...changed),
      "found tbf 1: rate 9000000bit",
    ],
    ["the hook no longer exists", {}, tc("qdisc", "del", "dev", "END", "ingress"), "found neither ingress nor clsact"],
    [
      "the filter no longer exists",
      {},
      tc("filter", "del", "dev", "END", ...filterOf),
      "found ingress ffff: with 0 other filters",
    ],
    [
      "the filter takes some packets only",
      {},
      async (limited) => {
        await tc("filter", "del", "dev", "END", ...filterOf)(limited)
        const action = ["action", "mirred", "egress", "redirect", "dev", "IFB"]
        await tc(
          "filter",
          "add",
          "dev",
          "END",
          "parent",
          "ffff:",
          "protocol",
          "all",
          "u32",
          "match",
          "u32",
          "1",
          "1",
          ...action,
        )(limited)
      },
      "with 1 other filters",
    ],
    ["the device no longer exists", {}, ip("link", "del", "IFB"), "Check of the ifb of"],
    ["the device is down", {}, ip("link", "set", "IFB", "down"), "expected up, found down"],
    [
      "a class no longer exists",
      withSubnets,
      (limited) =>
        tc(
          "filter",
          "del",
          "dev",
          "END",
          "parent",
          "1:",
        )(limited).then(() => tc("class", "del", "dev", "END", "classid", "1:30")(limited)),
      "Check of class 1:30",
    ],
    [
      "a class is another",
      withSubnets,
      tc("class", "change", "dev", "IFB", "parent", "1:", "classid", "1:30", "htb", "rate", "9mbit"),
      "found another limit",
    ],
    [
      "a subnet has no filter",
      withSubnets,
      tc("filter", "del", "dev", "END", "parent", "1:", "prio", "15"),
      "expected protocol ipv6 match fd000001/ffffffff at 8",
    ],
    [
      "a subnet too many has one",
      withSubnets,
      tc(
        "filter",
        "add",
        "dev",
        "END",
        "parent",
        "1:",
        "protocol",
        "ip",
        "prio",
        "20",
        "u32",
        "match",
        "ip",
        "src",
        "10.10.0.0/16",
        "flowid",
        "1:30",
      ),
      "expected 2, found 3",
    ],
  ]
  for (const [what, keys, damage, says] of cases) {
    testWith(needs, what, async () => {
      await using limited = await Limited.create({ ...both, ...keys })
      const result = await limited.bandwidth.add()
      expect(await limited.bandwidth.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
      await damage(limited)
      const { code, msg } = await fail(limited.bandwidth.check(result))
      expect(code).toBe(999)
      expect(msg).toContain(says)
    })
  }
})
