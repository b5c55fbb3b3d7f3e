/**
 * Tests the firewall plugin with iptables that stores its rules in nf_tables: its iptables backend, and the rules with
 * which its nftables backend passes a table that drops packets. The plugin runs in this process; `iptables-save` shows
 * the results.
 */
import { describe, expect, test } from "bun:test"
import { refuseAnswer } from "../in-process.ts"
import { call, done, type Firewalled, host, useHost } from "./firewalled.ts"

useHost()

const isRule = (line: string) => /^-A|^:FORWARD/.test(line)

/** Returns the rules of both families, in order. */
async function rules(): Promise<string[]> {
  const { stdout } = await host.exec("sh", ["-c", "iptables-save -t filter; ip6tables-save -t filter"])
  return stdout.split("\n").filter(isRule)
}

const iptables = (line: string) => host.exec("sh", ["-c", `iptables ${line}`])

describe("backend iptables", () => {
  const keys = { backend: "iptables" }
  const [a, b]: Firewalled[] = [
    { number: 2, policy: "isolated", keys },
    { number: 3, bridge: "br2", keys },
  ]
  const both = [a, b].filter((one) => one !== undefined)

  test("makes upstream's rules of both families, and labels; DEL takes them back", async () => {
    done("ADD", ...both)
    expect(`${(await rules()).join("\n")}\n`).toBe(await Bun.file(`${import.meta.dir}/firewall.iptables`).text())
    done("CHECK", ...both)
    const before = await rules()
    done("ADD", ...both)
    expect(await rules()).toEqual(before)
    expect(
      call("ADD", { number: 4, policy: "same-bridge", keys, name: "net2" }, { write: refuseAnswer }).exitCode,
    ).toBe(1)
    expect(await rules()).toEqual(before)
    done("DEL", ...both)
    expect((await rules()).filter((line) => /10\.1\.|fd00|br1/.test(line))).toEqual([])
  })

  test.each([
    ["-D CNI-FORWARD -s 10.1.0.2/32 -j ACCEPT", 'rule "CNI-FORWARD -s 10.1.0.2/32 -j ACCEPT"'],
    [
      "-D CNI-FORWARD -d 10.1.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
      'rule "CNI-FORWARD -d 10.1.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"',
    ],
    [
      "-D FORWARD -m comment --comment 'CNI firewall plugin rules' -j CNI-FORWARD",
      'rule "FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD"',
    ],
    [
      "-F CNI-ISOLATION-STAGE-2",
      'rule "CNI-ISOLATION-STAGE-2 -o br1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP"',
    ],
    [
      "-I CNI-FORWARD -j LOG",
      'rule "CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN" first in CNI-FORWARD',
    ],
  ])("CHECK misses what `iptables %s` has damaged, and the next ADD repairs it", async (damage, expected) => {
    done("ADD", ...both)
    const whole = await rules()
    await iptables(damage)
    expect(call("CHECK", { number: 2, policy: "isolated", keys }).json).toMatchObject({
      code: 999,
      msg: expect.stringContaining(`expected ${expected}; found none`),
    })
    done("ADD", ...both)
    done("CHECK", ...both)
    expect((await rules()).filter((line) => !line.includes("LOG")).sort()).toEqual(whole.sort())
  })

  test("GC takes what is not valid of its network", async () => {
    const other: Firewalled = { number: 4, name: "net2", keys, bridge: "br2", policy: "same-bridge" }
    done("ADD", { number: 3, keys }, other)
    const before = await rules()
    done("ADD", { number: 2, policy: "isolated", keys })
    const valid = [{ containerID: "c3", ifname: "eth0" }]
    const gc = { number: 1, keys: { ...keys, prevResult: undefined, "cni.dev/valid-attachments": valid } }
    done("GC", gc)
    expect(await rules()).toEqual(before)
  })

  test("the containers of another backend are checked, and deleted, all the same", async () => {
    done("ADD", ...both)
    done("CHECK", ...both.map((spec) => ({ ...spec, keys: { backend: "nftables" } })))
    done("DEL", ...both.map((spec) => ({ ...spec, keys: { backend: "nftables" } })))
    expect((await rules()).filter((line) => /10\.1\.|fd00|br1/.test(line))).toEqual([])
    done("ADD", { number: 2 })
    done("CHECK", { number: 2, keys })
    done("DEL", { number: 2, keys })
    expect((await host.exec("nft", ["list", "tables"])).stdout).not.toContain("cni_firewall")
    expect(call("CHECK", { number: 2, keys }).json.msg).toStartWith(
      "Cannot find the firewall rules of net1/c2/eth0 by iptables",
    )
    expect(call("CHECK", { number: 2 }).json.msg).toStartWith(
      "Cannot find the firewall rules of net1/c2/eth0: expected",
    )
  })
})

describe("backend nftables", () => {
  const dropIpv4 = "-P FORWARD DROP"
  const way = [
    '-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD',
    '-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN',
    '-A CNI-FORWARD -m comment --comment "CNI firewall plugin, backend nftables" -m mark --mark 0x1000/0x1000 -j ACCEPT',
  ]
  const missing =
    'Cannot find the accepting rule in table ip filter: expected rule "CNI-FORWARD -m comment --comment CNI firewall plugin, ' +
    'backend nftables -m mark --mark 0x1000/0x1000 -j ACCEPT", reached from FORWARD; found none'

  /** The output of `ip6tables-save` when there are no rules. */
  const ipv6 = ":FORWARD ACCEPT [0:0]"
  const whole = (policy: "DROP" | "ACCEPT") => [`:FORWARD ${policy} [0:0]`, ...way, ":FORWARD ACCEPT [0:0]", ...way]

  test("has one rule for all containers in FORWARD of both families, which goes with the last one", async () => {
    await iptables(dropIpv4)
    done("ADD", { number: 2 }, { number: 3 })
    expect(await rules()).toEqual(whole("DROP"))
    done("CHECK", { number: 2 })
    done("DEL", { number: 2 })
    expect(await rules()).toEqual(whole("DROP"))
    done("DEL", { number: 3 })
    expect(await rules()).toEqual([":FORWARD DROP [0:0]", ipv6])
  })

  test("makes the tables where there are none, as iptables would, and deletes them with the last container", async () => {
    done("ADD", { number: 2 })
    expect(await rules()).toEqual(whole("ACCEPT"))
    for (const line of way) await iptables(line.replace("-A", "-C"))
    done("DEL", { number: 2 })
    expect((await host.exec("nft", ["list", "ruleset"])).stdout).toBe("")
  })

  test.each([
    ["a rule of another program", "-A INPUT -s 192.0.2.1 -j DROP"],
    ["a policy", dropIpv4],
    ["a chain", "-N DOCKER-USER"],
  ])("leaves a table that it has made to %s that came in the meantime", async (_, line) => {
    done("ADD", { number: 2 })
    await iptables(line)
    done("DEL", { number: 2 })
    expect((await host.exec("nft", ["list", "tables"])).stdout).toBe("table ip filter\n")
    const left = line.startsWith("-A") ? ["-A INPUT -s 192.0.2.1/32 -j DROP"] : []
    expect(await rules()).toEqual([`:FORWARD ${line === dropIpv4 ? "DROP" : "ACCEPT"} [0:0]`, ...left, ipv6])
  })

  test("leaves a chain of the administrator's alone that is empty, and that another rule leads to", async () => {
    done("ADD", { number: 2 })
    await iptables("-A INPUT -j CNI-ADMIN")
    done("DEL", { number: 2 })
    expect(await rules()).toEqual([":FORWARD ACCEPT [0:0]", "-A INPUT -j CNI-ADMIN", ipv6])
  })

  test("an ADD that is undone leaves nothing", async () => {
    expect(call("ADD", { number: 2 }, { write: refuseAnswer }).exitCode).toBe(1)
    expect((await host.exec("nft", ["list", "ruleset"])).stdout).toBe("")
  })

  test.each([
    "-F CNI-FORWARD",
    "-F FORWARD",
    "-D FORWARD -m comment --comment 'CNI firewall plugin rules' -j CNI-FORWARD",
  ])(
    "misses it in CHECK after `iptables %s`, but not where nothing is dropped; the next ADD brings it back",
    async (damage) => {
      await iptables(dropIpv4)
      done("ADD", { number: 2 })
      await iptables(damage)
      expect(call("CHECK", { number: 2 }).json).toMatchObject({ code: 999, msg: missing })
      await iptables("-P FORWARD ACCEPT")
      done("CHECK", { number: 2 })
      await iptables(dropIpv4)
      done("ADD", { number: 2 })
      done("CHECK", { number: 2 })
      expect(await rules()).toEqual(whole("DROP"))
    },
  )

  test("misses it where rules of others are in FORWARD, and none leads to it", async () => {
    await iptables(dropIpv4)
    done("ADD", { number: 2 })
    await iptables("-F FORWARD")
    await iptables("-A FORWARD -i lo -j ACCEPT")
    expect(call("CHECK", { number: 2 }).json).toMatchObject({ code: 999, msg: missing })
  })

  test.each<[string, string[]]>([
    ["a rule of others in FORWARD may drop", ["-A FORWARD -j REJECT"]],
    ["the administrator's rules are to be heeded", ["-N CNI-ADMIN", "-A CNI-ADMIN -s 192.0.2.1 -j DROP"]],
  ])("%s: the way goes before it", async (_, lines) => {
    for (const line of lines) await iptables(line)
    done("ADD", { number: 2 })
    expect((await rules()).filter((line) => line.includes("CNI firewall"))).toEqual([...way, ...way])
    expect((await rules())[1]).toBe(way[0] ?? "")
  })

  test("leaves the table of a family alone that the container has no address of", async () => {
    await iptables(dropIpv4)
    const ips = [{ address: "fd00:1::2/64", interface: 2 }]
    const interfaces = [{ name: "br1" }, { name: "veth2" }, { name: "eth0", sandbox: "/run/netns/c" }]
    done("ADD", { number: 2, keys: { prevResult: { cniVersion: "1.1.0", ips, interfaces } } })
    expect(await rules()).toEqual([":FORWARD DROP [0:0]", ":FORWARD ACCEPT [0:0]", ...way])
    done("CHECK", { number: 2, keys: { prevResult: { cniVersion: "1.1.0", ips, interfaces } } })
  })
})
