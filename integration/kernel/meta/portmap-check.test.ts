/**
 * CHECK, conditions, UDP flows and leavings, by the portmap plugin called in this process, judged with `nft` and
 * `conntrack`.
 */
import { describe, expect, test } from "bun:test"
import { portmap } from "../../../meta/portmap/main.ts"
import { callPlugin } from "../in-process.ts"
import { call, configOf, dns, done, host, ruleset, sh, useHost, web } from "./mapped-ports.ts"

useHost()

describe("CHECK names what is missing, and the next ADD makes it", () => {
  const find = "Cannot find a port mapping of net1/c2/eth0: expected"
  test.each([
    ["delete element ip cni_hostports ports { tcp . 8080 }", `${find} tcp . 8080`],
    ["delete element ip6 cni_hostports ports { udp . 5353 }", `${find} udp . 5353`],
    ["delete element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 }", `${find} 10.1.0.0 . 10.1.0.2`],
    ["flush chain ip cni_hostports prerouting", "expected"],
    ["delete table ip6 cni_hostports", "expected"],
  ])("%s", async (damage, message) => {
    done("ADD", 2, [web, dns])
    const whole = await ruleset()
    await host.exec("nft", ["-f", "-"], { input: `${damage}\n` })
    expect(call("CHECK", 2, [web, dns]).json).toMatchObject({ code: 999, msg: expect.stringContaining(message) })
    done("ADD", 2, [web, dns])
    done("CHECK", 2, [web, dns])
    expect((await ruleset()).split("\n").sort()).toEqual(whole.split("\n").sort())
  })

  test("but CHECK itself restores the guard of route_localnet", async () => {
    done("ADD", 2, [web, dns])
    const whole = await ruleset()
    await host.exec("nft", ["flush chain ip cni_hostports raw"])
    expect(await ruleset()).not.toBe(whole)
    done("CHECK", 2, [web, dns])
    expect((await ruleset()).split("\n").sort()).toEqual(whole.split("\n").sort())
  })

  test("by the other backend, when that is what ADD was made by", () => {
    done("ADD", 2, [web], { backend: "iptables" })
    done("CHECK", 2, [web])
    done("DEL", 2, [web])
    done("ADD", 2, [web])
    done("CHECK", 2, [web], { backend: "iptables" })
    expect(call("CHECK", 2, [dns]).json.msg).toContain("Cannot find a port mapping of net1/c2/eth0")
    expect(call("CHECK", 2, [dns], { backend: "iptables" }).json.msg).toContain("iptables")
  })
})

test("conditions are rules of nft for the attachment alone, and go with it", async () => {
  const keys = { conditionsV4: ["ip", "saddr", "192.0.2.0/24"] }
  done("ADD", 3, [dns])
  const before = await ruleset()
  done("ADD", 2, [web], keys)
  expect(await ruleset()).toContain("192.0.2.0/24")
  done("CHECK", 2, [web], keys)
  done("ADD", 2, [web], { conditionsV4: ["ip", "saddr", "198.51.100.0/24"] })
  expect(await ruleset()).toContain("198.51.100.0/24")
  expect(await ruleset()).not.toContain("192.0.2.0/24")
  expect(call("ADD", 2, [web], { conditionsV4: ["no", "such", "words"] }).exitCode).toBe(1)
  done("DEL", 2, [web], keys)
  expect(await ruleset()).toBe(before)
  const refused = call("ADD", 2, [web], {
    backend: "iptables",
    conditionsV4: ["-no", "-such"],
    conditionsV6: ["-words"],
  })
  expect(refused.json.details).toEndWith('the rules have what "conditionsV4" and "conditionsV6" says')
  const chain = call("ADD", 2, [web], { backend: "iptables", externalSetMarkChain: "NOT-THERE" })
  expect(chain.json.details).toEndWith('the rules have what "externalSetMarkChain" says')
})

test("the UDP flows of a port are forgotten with ADD, where they lead elsewhere, and with DEL; those of others stay", async () => {
  const flow = (source: string, port: number, reply: string, replyPort: number) =>
    `conntrack -I -p udp -t 60 -s ${source} -d 10.1.0.1 --sport 1000 --dport ${port} -r ${reply} -q ${source} --reply-port-src ${replyPort} --reply-port-dst 1000`
  const insert = () =>
    sh(
      [
        flow("192.0.2.1", 5353, "10.1.0.1", 5353), // from before the mapping
        flow("192.0.2.2", 5353, "10.1.0.9", 53), // to another container
        flow("192.0.2.3", 5353, "10.1.0.2", 53), // as it is to be
        flow("192.0.2.4", 5354, "10.1.0.1", 5354), // another port
        "conntrack -I -p udp -t 60 -s 192.0.2.5 -d 198.51.100.1 --sport 1000 --dport 5353 -r 198.51.100.1 -q 192.0.2.5 --reply-port-src 5353 --reply-port-dst 1000",
      ]
        .map((line) => `${line} 2>&1 || exit 1`)
        .join("\n"),
    )
  const flows = async () =>
    [...(await sh("conntrack -L -p udp 2>/dev/null")).matchAll(/src=(192\.0\.2\.\d)/g)].map(([, ip]) => ip).sort()
  await insert()
  done("ADD", 2, [dns])
  expect(await flows()).toEqual(["192.0.2.3", "192.0.2.4", "192.0.2.5"])
  done("DEL", 2, [dns])
  expect(await flows()).toEqual(["192.0.2.4", "192.0.2.5"])
  await sh("conntrack -F 2>/dev/null")
})

describe("without anything to map", () => {
  test("ADD passes the result on, CHECK and DEL succeed, and nothing is there", async () => {
    const { prevResult } = configOf(2, [])
    for (const keys of [{}, { runtimeConfig: undefined }, { prevResult: { ...prevResult, ips: [] } }]) {
      const answer = call("ADD", 2, [], keys)
      expect(answer).toMatchObject({ exitCode: 0, json: { interfaces: prevResult.interfaces }, log: [] })
      done("CHECK", 2, [], keys)
      done("DEL", 2, [], keys)
    }
    expect(await ruleset()).toBe("")
  })

  test.each(["ADD", "CHECK"] as const)("%s needs prevResult", (verb) => {
    expect(call(verb, 2, [web], { prevResult: undefined }).json).toMatchObject({
      code: 7,
      msg: `Cannot ${verb} port mappings: prevResult is missing`,
      details:
        "portmap must be called as chained plugin: it maps ports to a container that an earlier plugin has connected",
    })
  })

  test("STATUS is well by either backend, and leaves nothing", async () => {
    for (const keys of [
      {},
      { backend: "iptables" },
      { backend: "nftables" },
      { conditionsV4: ["ip", "saddr", "192.0.2.1"] },
    ]) {
      const config = { ...configOf(2, [], keys), prevResult: undefined, runtimeConfig: undefined }
      expect(callPlugin(host, portmap, { verb: "STATUS", config })).toMatchObject({ exitCode: 0, log: [] })
    }
    expect(await ruleset()).toBe("")
  })
})

test("what the Go suite has left goes with DEL, for the container's addresses", async () => {
  const rule = (ip: string, comment: string) => `tcp dport 8080 dnat ip to ${ip}:80 comment "${comment}"`
  const rules = [rule("10.1.0.2", "c2"), rule("10.1.0.9", "c2"), rule("10.1.0.2", "c22")]
  await host.exec("nft", ["-f", "-"], {
    input: `table ip cni_hostport { chain hostports { ${rules.join("; ")}; }; }\n`,
  })
  done("DEL", 2, [web])
  const left = await ruleset()
  expect(left).not.toContain('10.1.0.2:80 comment "c2"')
  expect(left.match(/dnat/g)).toHaveLength(2)
})
