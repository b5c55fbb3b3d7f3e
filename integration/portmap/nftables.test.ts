import { expect, test } from "bun:test"
import {
  askEcho,
  EchoPeer,
  expectNoEcho,
  expectUnchanged,
  fail,
  mountOver,
  readSysctl,
  ruleBackends,
  runTraced,
  succeed,
  takeSnapshot,
} from "../lab/mod.ts"
import { hostAddresses, type MappedPod, PortmapLab } from "./portmap-lab.ts"

const web = { hostPort: 8080, containerPort: 80, protocol: "tcp" } as const
const dns = { hostPort: 53, containerPort: 5353, protocol: "udp" } as const
const { ip } = hostAddresses

function createLab(): Promise<PortmapLab> {
  return PortmapLab.create(ruleBackends[0])
}

test("the table reads like what it does, and no program is needed for it", async () => {
  await using lab = await createLab()
  await mountOver(lab.host, "/usr/sbin/nft", "/bin/false")
  const pod = await lab.addPod()
  await succeed(pod.map([web, { ...dns, hostIP: ip }]))
  expect(await pod.check()).toMatchObject({ exitCode: 0 })
  await lab.host.exec("umount", ["/usr/sbin/nft"])
  const owner = `lab/${pod.namespace.name}/eth0`
  expect(
    (await lab.host.exec("nft", ["list", "table", "ip", "cni_hostports"])).stdout.replaceAll(owner, "OWNER"),
  ).toBe(`table ip cni_hostports {
	comment "CNI: elements are commented network/containerID/ifname"
	map ports {
		type inet_proto . inet_service : ipv4_addr . inet_service
		comment "of every address of the host"
		elements = { tcp . 8080 comment "OWNER" : 10.22.0.2 . 80 }
	}

	map address_ports {
		type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
		comment "of one address"
		elements = { 203.0.113.1 . udp . 53 comment "OWNER" : 10.22.0.2 . 5353 }
	}

	set hairpin {
		type ipv4_addr . ipv4_addr
		comment "in which network"
		elements = { 10.22.0.0 . 10.22.0.2 comment "OWNER" }
	}

	set everybody {
		type ipv4_addr
		comment "masqAll"
	}

	set localhost {
		type ipv4_addr
		comment "reached as 127.0.0.1"
		elements = { 10.22.0.2 comment "OWNER" }
	}

	set localnet_links {
		type ifname
		comment "route_localnet was off before"
		elements = { "br-lab" }
	}

	chain conditions {
	}

	chain hostports {
		jump conditions comment "may end here"
		ct label set 127 dnat ip to ip daddr . meta l4proto . th dport map @address_ports comment "one address first"
		ct label set 127 dnat ip to meta l4proto . th dport map @ports comment "then all"
	}

	chain prerouting {
		type nat hook prerouting priority dstnat + 5; policy accept;
		fib daddr type local jump hostports comment "after services, from elsewhere"
	}

	chain output {
		type nat hook output priority -95; policy accept;
		fib daddr type local jump hostports comment "after services, from the host itself"
	}

	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ct label 127 ip daddr @everybody masquerade comment "mapped here, from everywhere"
		ct label 127 ip saddr 127.0.0.0/8 ip daddr @localhost masquerade comment "mapped here, from the host as 127.0.0.1"
		ct label 127 ip saddr & 255.255.0.0 . ip daddr @hairpin masquerade comment "mapped here, from beside the container, /16"
	}

	chain raw {
		type filter hook prerouting priority raw; policy accept;
		ip daddr 127.0.0.0/8 iifname != "lo" drop comment "route_localnet would let them in"
		ip saddr 127.0.0.0/8 iifname != "lo" drop comment "nor as if from the host itself"
	}
}
`)
})

test("a mapping of one address goes before one of all, in either order of ADD", async () => {
  await using lab = await createLab()
  const [all, one] = [await lab.addPod(), await lab.addPod()]
  await using peer = await EchoPeer.start(all.namespace)
  await using onePeer = await EchoPeer.start(one.namespace)
  await succeed(all.map([{ ...web, containerPort: peer.port }]))
  await succeed(one.map([{ ...web, containerPort: onePeer.port, hostIP: ip }]))
  const answered = async (address: string) => {
    const { to } = await askEcho(lab.host, { transport: "tcp", address, port: web.hostPort })
    return to.address
  }
  expect(await answered(ip)).toBe(one.ip)
  expect(await answered("127.0.0.1")).toBe(all.ip)
})

test("names of any length are told apart", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  const before = await takeSnapshot(lab.host)
  const [one, other] = [{ containerId: "c".repeat(200) }, { containerId: `${"c".repeat(199)}d` }]
  await succeed(pod.map([web], {}, one))
  await succeed(pod.unmap({}, other))
  expect(await lab.rules()).toContain("ccc~")
  await succeed(pod.unmap({}, one))
  expectUnchanged(before, await takeSnapshot(lab.host))
})

test("others' tables are left alone, and what others flush of theirs leaves ours alone", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  await using peer = await EchoPeer.start(pod.namespace)
  const theirs =
    "add table ip nat; add chain ip nat c { type nat hook prerouting priority -100; }; add rule ip nat c counter"
  await lab.host.exec("nft", [theirs])
  const before = await takeSnapshot(lab.host)
  await succeed(pod.map([{ ...web, containerPort: peer.port }]))
  await lab.host.exec("nft", ["flush table ip nat"])
  await askEcho(lab.outside, { transport: "tcp", address: ip, port: web.hostPort })
  await lab.host.exec("nft", ["add rule ip nat c counter"])
  await succeed(pod.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))
})

/** Changes to the mappings, with the error of CHECK for each. */
const damages = [
  { what: "everything is flushed", command: "flush ruleset", says: ["expected the rules", "dnat to"] },
  { what: "our rules are flushed", command: "flush table ip cni_hostports", says: ["expected the rules"] },
  {
    what: "a table is dormant",
    command: "add table ip6 cni_hostports { flags dormant; }",
    says: ["expected the rules", 'found table ip6 cni_hostports with "flags dormant"'],
  },
  {
    what: "a mapping is gone",
    command: "delete element ip cni_hostports ports { tcp . 8080 }",
    says: ["expected tcp . 8080", "in ip cni_hostports ports; found none"],
  },
  {
    what: "a mapping leads elsewhere",
    command:
      "delete element ip cni_hostports ports { tcp . 8080 }; add element ip cni_hostports ports { tcp . 8080 : 10.9.9.9 . 9 }",
    says: ["found tcp . 8080 : 10.9.9.9 . 9"],
  },
  {
    what: "the masquerade is gone",
    command: "flush set ip6 cni_hostports hairpin",
    says: ["in ip6 cni_hostports hairpin; found none"],
  },
]

test.each(damages)("CHECK names it when $what, and a new ADD repairs it", async ({ command, says }) => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  const mappings = [web, dns]
  await succeed(pod.map(mappings))
  const before = await takeSnapshot(lab.host)
  await lab.host.exec("nft", [command])
  const { msg } = await fail(pod.check())
  for (const words of says) expect(msg).toContain(words)
  if (command.includes("10.9.9.9")) await lab.host.exec("nft", ["delete element ip cni_hostports ports { tcp . 8080 }"])
  await succeed(pod.map(mappings))
  expectUnchanged(before, await takeSnapshot(lab.host), ({ line }) =>
    // CHECK first restores the guard, so its chain may have a different position in the table.
    /localnet_(links element|guarded)|^(chain|rule) ip cni_hostports raw /.test(line),
  )
})

test("127.0.0.0/8 is let through to containers for as long as it is needed, and not from them", async () => {
  await using lab = await createLab()
  const [pod, other] = [await lab.addPod(), await lab.addPod()]
  const localnet = () => readSysctl(lab.host, "net/ipv4/conf/br-lab/route_localnet")
  await succeed(pod.map([{ ...web, hostIP: ip }]))
  expect(await localnet()).toBe("0")
  await succeed(pod.map([web]))
  await succeed(other.map([dns]))
  expect(await localnet()).toBe("1")
  expect(await pod.check()).toMatchObject({ exitCode: 0 })

  // Without the rule in chain raw, a container could reach a server that listens only on 127.0.0.1.
  await using own = await EchoPeer.start(lab.host, { address: "127.0.0.1", port: 9999 })
  await pod.namespace.exec("sysctl", ["-qw", "net.ipv4.conf.all.route_localnet=1"])
  await pod.namespace.exec("ip", ["route", "add", "127.0.0.1", "via", hostAddresses.gateway])
  await expectNoEcho(pod.namespace, { transport: "udp", address: "127.0.0.1", port: own.port })

  await succeed(pod.unmap())
  expect(await localnet()).toBe("1")
  await lab.host.exec("sysctl", ["-qw", "net.ipv4.conf.br-lab.route_localnet=0"])
  expect((await fail(other.check())).msg).toContain("route_localnet")
  await succeed(other.map([dns]))
  await succeed(other.unmap())
  expect(await localnet()).toBe("0")
})

test("[::1] is refused at once, so that callers go on to 127.0.0.1", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  await succeed(pod.map([web]))
  const ask = askEcho(lab.host, { transport: "tcp", address: "::1", port: 8080 })
  await expect(ask).rejects.toThrow("Failed to connect")
})

test("#45 first ADDs and last DELs of eight containers at once end in all, and in nothing", async () => {
  await using lab = await createLab()
  const pods: MappedPod[] = []
  for (let n = 0; n < 8; n++) pods.push(await lab.addPod())
  const before = await takeSnapshot(lab.host)
  for (let round = 0; round < 5; round++) {
    await Promise.all(
      pods.map((pod, n) =>
        succeed(
          pod.map([
            { ...web, hostPort: 8000 + n },
            { ...dns, hostPort: 9000 + n },
          ]),
        ),
      ),
    )
    expect((await lab.rules()).match(/ jump hostports /g)).toHaveLength(4)
    for (const pod of pods) expect(await pod.check()).toMatchObject({ exitCode: 0 })
    await Promise.all(pods.map((pod) => succeed(pod.unmap())))
    expectUnchanged(before, await takeSnapshot(lab.host))
  }
})

test("of eight containers that request one port at once one gets it, and the others are told its owner", async () => {
  await using lab = await createLab()
  const pods: MappedPod[] = []
  for (let n = 0; n < 8; n++) pods.push(await lab.addPod())
  const outputs = await Promise.all(pods.map((pod) => pod.map([web, dns])))
  const winner = outputs.findIndex(({ exitCode }) => exitCode === 0)
  expect(outputs.filter(({ exitCode }) => exitCode === 0)).toHaveLength(1)
  for (const [n, { stdout }] of outputs.entries()) {
    if (n !== winner) expect(stdout).toContain(`for lab/${pods[winner]?.namespace.name}/eth0`)
  }
})

/** Returns the table of the Go plugin 1.10.0, backend nftables, for the mappings `web` and `dns` of a container. */
function upstreamTable(family: "ip" | "ip6", pod: MappedPod, sources: readonly string[]): string {
  const address = family === "ip" ? pod.ip : pod.ip6
  const to = (port: number) => (family === "ip" ? `${address}:${port}` : `[${address}]:${port}`)
  const comment = `comment "${pod.namespace.name}"`
  const hook = (name: string) => `chain ${name} {
      type nat hook ${name} priority -100; policy accept;
      fib daddr type local jump hostports_all
    }`
  return `table ${family} cni_hostport {
    chain hostports {
      tcp dport 8080 dnat to ${to(80)} ${comment}
      ${family === "ip" ? `ip daddr ${ip} udp dport 53 dnat to ${to(5353)} ${comment}` : ""}
    }
    chain hostip_hostports { }
    chain hostports_all {
      jump hostip_hostports
      jump hostports
    }
    ${hook("prerouting")}
    ${hook("output")}
    chain masquerading {
      type nat hook postrouting priority srcnat; policy accept;
      ${sources.map((source) => `${family} saddr ${source} ${family} daddr ${address} masquerade ${comment}`).join("\n")}
    }
  }\n`
}

test("CHECK takes what the Go suite's nftables backend has made, and misses each part of it", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  pod.mappings = [web, { ...dns, hostIP: ip }]
  const tables = upstreamTable("ip", pod, [pod.ip, "127.0.0.1"]) + upstreamTable("ip6", pod, [pod.ip6])
  const toAll = upstreamTable("ip", pod, ["0.0.0.0/0"]) + upstreamTable("ip6", pod, ["::/0"])
  const check = async (input: string, keys: object = {}) => {
    await lab.host.exec("nft", ["-f", "-"], { input: `flush ruleset\n${input}` })
    return pod.check(keys)
  }
  await succeed(pod.map(pod.mappings)) // enables route_localnet, as the Go plugin does
  expect(await check(tables)).toMatchObject({ exitCode: 0 })
  expect(await check(toAll, { masqAll: true })).toMatchObject({ exitCode: 0 })
  const bare = tables.replaceAll(/^.* masquerade .*$/gm, "")
  expect(await check(bare, { snat: false })).toMatchObject({ exitCode: 0 })
  const damaged = {
    "no masquerade": bare,
    "of all sources": toAll,
    "another port of the host": tables.replace("dport 8080", "dport 8081"),
    "another port of the container": tables.replace(`${pod.ip}:80 `, `${pod.ip}:81 `),
    "all addresses of the host instead of one": tables.replace(`ip daddr ${ip} udp`, "udp"),
    "another protocol": tables.replace("udp dport", "tcp dport"),
    "another container": tables.replace(pod.namespace.name, "another"),
    "nothing leads there": tables.replace("jump hostports_all", "accept"),
    "nothing for IPv6": tables.slice(0, tables.indexOf("table ip6")),
  }
  for (const text of Object.values(damaged)) {
    expect(text).not.toBe(tables)
    expect((await fail(check(text))).msg).toContain("Cannot find a port mapping of")
  }
  await succeed(pod.unmap())
})

test("what the Go suite's nftables backend has left for a container goes with DEL, and its other networks' stays", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  const id = pod.namespace.name
  const rules = (to: string) => `
    add rule ip cni_hostport hostports tcp dport 8080 dnat to ${to}:80 comment "${id}"
    add rule ip cni_hostport masquerading ip saddr ${to} ip daddr ${to} masquerade comment "${id}"`
  const text = `
    add table ip cni_hostport
    add chain ip cni_hostport hostports
    add chain ip cni_hostport masquerading { type nat hook postrouting priority 100; }
    ${rules(pod.ip)}${rules("10.99.0.7")}
    add rule ip cni_hostport hostports tcp dport 8081 dnat to ${pod.ip}:80 comment "another"\n`
  await lab.host.exec("nft", ["-f", "-"], { input: text })
  await succeed(pod.unmap({ runtimeConfig: { portMappings: [web] } }))
  const left = (await lab.host.exec("nft", ["list", "table", "ip", "cni_hostport"])).stdout
  expect(left.match(/10\.99\.0\.7/g)).toHaveLength(3)
  expect(left.match(/10\.22\.0\.2/g)).toHaveLength(1)
  await succeed(pod.unmap({ prevResult: undefined }))
  expect((await lab.host.exec("nft", ["list", "table", "ip", "cni_hostport"])).stdout).not.toContain(id)
})

test("DEL removes what the Go suite has left before it forgets the UDP flows, which would come back by that", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  const theirs = `table ip cni_hostport { chain hostports { udp dport 53 dnat to ${pod.ip}:5353 comment "${pod.namespace.name}"; }; }`
  await lab.host.exec("nft", ["-f", "-"], { input: `${theirs}\n` })
  const keys = { runtimeConfig: { portMappings: [dns] } }
  const { output, text } = await runTraced(pod.portmap, "DEL", ["trace=sendto,sendmsg"], keys)
  expect(output).toMatchObject({ exitCode: 0 })
  // The message types of NFNL_SUBSYS_NFTABLES and NFNL_SUBSYS_CTNETLINK, as strace prints them.
  const asked = [...text.matchAll(/NFT_MSG_DELRULE|IPCTNL_MSG_CT_\w+/g)].map(([name]) => name)
  expect(new Set(asked).size).toBeGreaterThan(1)
  expect(asked.lastIndexOf("NFT_MSG_DELRULE")).toBeLessThan(asked.findIndex((name) => name.startsWith("IPCTNL")))
})

test("#36 STATUS says what is missing", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  await succeed(pod.portmap.run("STATUS"))
  const { code, details } = await fail(pod.portmap.run("STATUS", { backend: "iptables" }))
  expect(code).toBe(50)
  expect(details).toContain("iptables-restore")
  await mountOver(lab.host, "/usr/sbin/nft", "/dev/null")
  const conditional = await fail(pod.portmap.run("STATUS", { conditionsV4: ["ip saddr != 192.0.2.1"] }))
  expect(conditional).toMatchObject({ code: 50, msg: expect.stringContaining('"nft"') })
})

test("a table that nft has saved and loaded again works on, and DEL finds all without the notes", async () => {
  await using lab = await createLab()
  const pod = await lab.addPod()
  const before = await takeSnapshot(lab.host)
  await using peer = await EchoPeer.start(pod.namespace)
  await succeed(pod.map([{ ...web, containerPort: peer.port }, dns]))
  const saved = await lab.rules()
  await lab.host.exec("nft", ["-f", "-"], { input: `flush ruleset\n${saved}` })
  expect(await lab.rules()).toBe(saved)
  await askEcho(lab.outside, { transport: "tcp", address: ip, port: web.hostPort })
  expect(await pod.check()).toMatchObject({ exitCode: 0 })
  await succeed(pod.unmap())
  expectUnchanged(before, await takeSnapshot(lab.host))
})
