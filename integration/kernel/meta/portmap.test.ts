/**
 * The port mappings of both packet filters, by the portmap plugin called in this process, judged with `nft`,
 * `iptables-save` and /proc/sys.
 */
import { describe, expect, test } from "bun:test"
import { portmap } from "../../../meta/portmap/main.ts"
import { callPlugin, refuseAnswer } from "../in-process.ts"
import {
  call,
  configOf,
  dns,
  done,
  host,
  iptables,
  local,
  localnet,
  ruleset,
  sh,
  useHost,
  web,
} from "./mapped-ports.ts"

useHost()

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

    test("an ADD whose answer is not read leaves what there was, alone and beside another", async () => {
      for (const others of [[], [web]]) {
        if (others.length > 0) done("ADD", 3, others, keys)
        const before = [await shown(), await localnet()]
        expect(call("ADD", 2, [dns, local, { ...web, hostPort: 81 }], keys, { write: refuseAnswer }).exitCode).toBe(1)
        const after = (await shown()).split("\n").filter((line) => !/CNI-(HOSTPORT|DN)/.test(line) || others.length > 0)
        expect([after.join("\n"), others.length > 0 ? await localnet() : "0"]).toEqual(before)
      }
    })

    test("DEL takes them back, with any input, and the setting with the last", async () => {
      const wrong = { runtimeConfig: { portMappings: [{ hostPort: "x" }] }, backend: undefined }
      for (const told of [{}, { prevResult: undefined, ...wrong }]) {
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

    test("what was on before stays on and guarded, also when the last port no longer exists", async () => {
      await sh("sysctl -qw net.ipv4.conf.br0.route_localnet=1")
      done("ADD", 2, [web], keys)
      expect(await ruleset()).toMatch(
        /set localnet_guarded \{[^}]*comment "route_localnet was on before"[^}]*elements = \{ "br0"/,
      )
      done("DEL", 2, [web], keys)
      expect(await localnet()).toBe("1")
      expect((await ruleset()).match(/ip [sd]addr 127.0.0.0\/8 iifname != "lo" drop/g)).toHaveLength(2)
      expect(await ruleset()).not.toContain("map ports")
    })
  })

test("a table whose guards look at the interface first, as the release before made them, is complete", async () => {
  done("ADD", 2, [web])
  const list = async () => (await host.exec("nft", ["list", "chain", "ip", "cni_hostports", "raw"])).stdout
  const chain = await list()
  const former = chain.replace(/(ip [sd]addr 127\.0\.0\.0\/8) (iifname != "lo")/g, "$2 $1")
  expect(former).not.toBe(chain)
  await host.exec("nft", ["-f", "-"], { input: `flush chain ip cni_hostports raw\n${former}` })
  expect(await list()).toBe(former)
  done("CHECK", 2, [web])
  done("ADD", 3, [dns])
  expect(await list()).toBe(former)
  done("DEL", 2, [web])
  done("DEL", 3, [dns])
  expect(await ruleset()).toBe("")
})
