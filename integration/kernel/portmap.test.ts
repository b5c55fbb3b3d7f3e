/**
 * The portmap plugin on real packet filters, called in this process, judged with `nft`, `iptables-save`, `conntrack` and /proc/sys.
 */
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test"
import { portmap } from "../../meta/portmap/main.ts"
import { type ContainerNamespace, HostNamespace, patient } from "../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall, refuseAnswer } from "./in-process.ts"

setDefaultTimeout(patient(30_000))

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create()
  pod = await host.addContainer()
  const lines = [
    "link add br0 type bridge",
    "address add 10.1.0.1/16 dev br0",
    "address add fd00:1::1/64 dev br0 nodad",
    "link set br0 up",
  ]
  await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
})
afterEach(
  async () => void (await host.exec("sh", ["-c", "nft flush ruleset; sysctl -qw net.ipv4.conf.br0.route_localnet=0"])),
)
afterAll(() => host[Symbol.asyncDispose]())

const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" }
const dns = { hostPort: 5353, containerPort: 53, protocol: "udp" }
const local = { hostPort: 8443, containerPort: 443, protocol: "tcp", hostIP: "192.0.2.1" }

function configOf(number: number, portMappings: readonly object[], keys: object = {}) {
  const interfaces = [{ name: "br0" }, { name: `veth${number}` }, { name: "eth0", sandbox: pod.path }]
  const ips = [`10.1.0.${number}/16`, `fd00:1::${number}/64`].map((address) => ({ address, interface: 2 }))
  const prevResult = { cniVersion: "1.1.0", interfaces, ips }
  return { cniVersion: "1.1.0", name: "net1", type: "portmap", prevResult, runtimeConfig: { portMappings }, ...keys }
}

/** Container "c2" has 10.1.0.2 and fd00:1::2. */
function call(
  verb: ProcessCall["verb"],
  number: number,
  mappings: readonly object[],
  keys: object = {},
  more: Partial<ProcessCall> = {},
): Answer {
  return callPlugin(host, portmap, {
    verb,
    config: configOf(number, mappings, keys),
    pod,
    containerId: `c${number}`,
    ...more,
  })
}

function done(...of: Parameters<typeof call>): void {
  expect(call(...of)).toMatchObject({ exitCode: 0, log: [] })
}

const sh = async (script: string) => (await host.exec("sh", ["-c", script])).stdout
const ruleset = () => sh("nft list ruleset")
const localnet = async () => (await sh("sysctl -n net.ipv4.conf.br0.route_localnet")).trim()
/** The rules of iptables' table `nat`, both families. */
const iptables = async () =>
  (await sh("iptables-save -t nat | grep '^-A'; ip6tables-save -t nat | grep '^-A'; true")).replaceAll(
    pod.path,
    "NETNS",
  )

const backends = [
  ["nftables", {}, ruleset],
  ["iptables", { backend: "iptables" }, iptables],
] as const

for (const [backend, keys, shown] of backends)
  describe(`backend ${backend}`, () => {
    test("maps the ports of both families, and lets 127.0.0.1 through to the bridge; a second ADD changes nothing", async () => {
      done("ADD", 2, [web, dns, local], keys)
      expect(await shown()).toBe(await Bun.file(`${import.meta.dir}/portmap.${backend}`).text())
      expect(await localnet()).toBe("1")
      done("CHECK", 2, [web, dns, local], keys)
      const all = await ruleset()
      done("ADD", 2, [web, dns, local], keys)
      expect(await ruleset()).toBe(all)
    })

    test("an ADD whose answer nobody takes leaves what there was, alone and beside another", async () => {
      for (const others of [[], [web]]) {
        if (others.length > 0) done("ADD", 3, others, keys)
        const before = [await shown(), await localnet()]
        expect(call("ADD", 2, [dns, local, { ...web, hostPort: 81 }], keys, { write: refuseAnswer }).exitCode).toBe(1)
        const after = (await shown()).split("\n").filter((line) => !/CNI-(HOSTPORT|DN)/.test(line) || others.length > 0)
        expect([after.join("\n"), others.length > 0 ? await localnet() : "0"]).toEqual(before)
      }
    })

    test("DEL takes them back, whatever it is told, and the setting with the last", async () => {
      for (const told of [
        {},
        { prevResult: undefined, runtimeConfig: undefined },
        { runtimeConfig: { portMappings: [{ hostPort: "x" }] } },
        { backend: undefined },
      ]) {
        done("ADD", 2, [web, dns], keys)
        done("ADD", 3, [local], keys)
        done("DEL", 2, [web, dns], { ...keys, ...told })
        expect(await ruleset()).not.toContain("c2")
        expect(await localnet()).toBe("1")
        done("CHECK", 3, [local], keys)
        done("DEL", 3, [local], { ...keys, ...told })
        expect(await ruleset()).not.toContain("cni_hostports")
        expect((await iptables()).split("\n").filter((line) => /c[23]|10\.1\.0\.[23]|fd00/.test(line))).toEqual([])
        expect(await localnet()).toBe("0")
        done("DEL", 3, [local], { ...keys, ...told })
      }
    })

    test("a port of another container is refused with its name, and nothing changes", async () => {
      done("ADD", 2, [web], keys)
      const before = [await shown(), await localnet()]
      expect(call("ADD", 3, [dns, web], keys).json.msg).toContain(
        "Cannot map host port 8080/tcp to 10.1.0.3:80 for net1/c3/eth0: it is mapped to 10.1.0.2:80 for net1/c2/eth0",
      )
      expect([await shown(), await localnet()]).toEqual(before)
    })

    test("GC takes what is not valid of its network", async () => {
      done("ADD", 2, [web], keys)
      done("ADD", 4, [{ ...web, hostPort: 83 }], { ...keys, name: "net2" })
      const before = await shown()
      done("ADD", 3, [dns], keys)
      const gc = (...ids: string[]) => {
        const valid = ids.map((containerID) => ({ containerID, ifname: "eth0" }))
        const config = {
          ...configOf(2, [], keys),
          prevResult: undefined,
          runtimeConfig: undefined,
          "cni.dev/valid-attachments": valid,
        }
        expect(callPlugin(host, portmap, { verb: "GC", config })).toMatchObject({ exitCode: 0, log: [] })
      }
      gc("c2", "c3")
      done("CHECK", 3, [dns], keys)
      gc("c2")
      expect(await shown()).toBe(before)
      gc()
      done("CHECK", 4, [{ ...web, hostPort: 83 }], { ...keys, name: "net2" })
      expect(await ruleset()).not.toContain("net1/")
    })

    test("without SNAT the setting is let alone, and nothing comes back by the host", async () => {
      done("ADD", 2, [web], { ...keys, snat: false })
      expect(await localnet()).toBe("0")
      expect(await shown()).not.toMatch(/10\.1\.0\.0|-s 10\.1\./)
      done("CHECK", 2, [web], { ...keys, snat: false })
      done("DEL", 2, [web], keys)
    })

    test("a port of one address of the host's is no reason for the setting, but one of 127.0.0.1 is", async () => {
      done("ADD", 2, [local], keys)
      expect(await localnet()).toBe("0")
      done("DEL", 2, [local], keys)
      done("ADD", 2, [{ ...local, hostIP: "127.0.0.1" }], keys)
      expect(await localnet()).toBe("1")
      await sh("sysctl -qw net.ipv4.conf.br0.route_localnet=0")
      expect(call("CHECK", 2, [{ ...local, hostIP: "127.0.0.1" }], keys).json.msg).toBe(
        'Check of sysctl "net/ipv4/conf/br0/route_localnet" failed: expected 1, found 0',
      )
      await sh("sysctl -qw net.ipv4.conf.all.route_localnet=1")
      done("CHECK", 2, [{ ...local, hostIP: "127.0.0.1" }], keys)
      await sh("sysctl -qw net.ipv4.conf.all.route_localnet=0")
      done("DEL", 2, [], keys)
    })

    test("what was on before stays on and guarded, also when the last port has gone", async () => {
      await sh("sysctl -qw net.ipv4.conf.br0.route_localnet=1")
      done("ADD", 2, [web], keys)
      expect(await ruleset()).toMatch(/set localnet_guarded \{[^}]*elements = \{ "br0"/)
      done("DEL", 2, [web], keys)
      expect(await localnet()).toBe("1")
      expect((await ruleset()).match(/iifname != "lo" ip [sd]addr 127.0.0.0\/8 drop/g)).toHaveLength(2)
      expect(await ruleset()).not.toContain("map ports")
    })
  })

describe("CHECK names what is missing, and the next ADD makes it", () => {
  const find = "Cannot find a port mapping of net1/c2/eth0: expected"
  test.each([
    ["delete element ip cni_hostports ports { tcp . 8080 }", `${find} tcp . 8080`],
    ["delete element ip6 cni_hostports ports { udp . 5353 }", `${find} udp . 5353`],
    ["delete element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 }", `${find} 10.1.0.0 . 10.1.0.2`],
    ["flush chain ip cni_hostports prerouting", "expected"],
    ["flush chain ip cni_hostports raw", "expected"],
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
        "portmap must be called as chained plugin: it maps to the container that an earlier plugin has connected",
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
