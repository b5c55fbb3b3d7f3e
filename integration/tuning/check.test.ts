import { expect, test } from "bun:test"
import { fail, waitFor, writeSysctl } from "../lab/mod.ts"
import { everything, TuningChain, writeAllowList } from "./chain.ts"

test("CHECK right after ADD passes and prints nothing, also for values with blanks", async () => {
  await using chain = await TuningChain.create(everything)
  const result = await chain.tuning.add()
  expect(await chain.tuning.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
})

test("CHECK passes for a MAC in capitals or with dashes", async () => {
  await using chain = await TuningChain.create({ mac: "0A-58-0A-01-02-03" })
  expect(await chain.tuning.check(await chain.tuning.add())).toMatchObject({ exitCode: 0 })
})

test("CHECK compares sysctls as the kernel prints them, not as they were written", async () => {
  const sysctl = {
    "net.ipv4.ip_default_ttl": "0x1f", // the kernel prints 31
    "net.ipv4.ip_local_reserved_ports": "9000,8000-8002", // the kernel prints 8000-8002,9000
    "net.ipv6.conf.IFNAME.stable_secret": "2001:db8::1", // the kernel prints all digits, and nothing until it is set
  }
  await using chain = await TuningChain.create({ sysctl })
  const result = await chain.tuning.add()
  expect(await chain.tuning.check(result)).toMatchObject({ exitCode: 0, stdout: "" })
  await writeSysctl(chain.pod, "net/ipv4/ip_default_ttl", "30")
  expect((await fail(chain.tuning.check(result))).msg).toContain('expected "31", found "30"')
})

test("CHECK does not mind a link that is promiscuous for another program", async () => {
  await using chain = await TuningChain.create({ mtu: 1400 })
  const result = await chain.tuning.add()
  await chain.pod.exec("ip", ["link", "add", "br0", "type", "bridge"])
  await chain.pod.exec("ip", ["link", "set", "eth0", "master", "br0"])
  await waitFor(async () => (await chain.link()).promiscuity === 1, "the bridge to listen")
  expect(await chain.tuning.check(result)).toMatchObject({ exitCode: 0 })
  // Promiscuity by another program does not replace the link's own setting.
  expect((await fail(chain.tuning.check(result, { promisc: true }))).msg).toContain('"promisc"')
})

test("CHECK without prevResult says that it is missing", async () => {
  await using chain = await TuningChain.create(everything)
  expect((await fail(chain.tuning.run("CHECK", { prevResult: undefined }))).msg).toContain("prevResult missing")
})

const damages: { what: string; damage: (chain: TuningChain) => Promise<unknown>; says: string }[] = [
  {
    what: "a sysctl has another value",
    damage: ({ pod }) => writeSysctl(pod, "net/core/somaxconn", "4096"),
    says: 'sysctl "net/core/somaxconn" failed: expected "500", found "4096"',
  },
  {
    what: "a sysctl is gone with its interface",
    damage: ({ pod }) => pod.exec("ip", ["link", "del", "eth0"]),
    says: "net.ipv4.conf.IFNAME.arp_filter",
  },
  {
    what: "the MAC is another",
    damage: ({ pod }) => pod.exec("ip", ["link", "set", "eth0", "address", "0a:00:00:00:00:99"]),
    says: '"mac" of "eth0" failed: expected 0a:00:00:00:00:07, found 0a:00:00:00:00:99',
  },
  {
    what: "the MTU is another",
    damage: ({ pod }) => pod.exec("ip", ["link", "set", "eth0", "mtu", "1500"]),
    says: '"mtu" of "eth0" failed: expected 1400, found 1500',
  },
  {
    what: "it is not promiscuous any more",
    damage: ({ pod }) => pod.exec("ip", ["link", "set", "eth0", "promisc", "off"]),
    says: '"promisc" of "eth0" failed: expected true, found false',
  },
  {
    what: "allmulti is off, with the values in the message",
    damage: ({ pod }) => pod.exec("ip", ["link", "set", "eth0", "allmulticast", "off"]),
    says: '"allmulti" of "eth0" failed: expected true, found false',
  },
  {
    what: "the queue has another length, with the values in the message",
    damage: ({ pod }) => pod.exec("ip", ["link", "set", "eth0", "txqueuelen", "78"]),
    says: '"txQLen" of "eth0" failed: expected 77, found 78',
  },
  {
    what: "the namespace is gone",
    damage: ({ host, pod }) => host.removeContainer(pod),
    says: "it does not exist",
  },
  {
    what: "the allow list forbids a sysctl by now",
    damage: ({ host }) => writeAllowList(host, ["^net.ipv4"]),
    says: "Sysctl net/core/somaxconn is not allowed",
  },
]

test.each(damages)("CHECK names it when $what", async ({ damage, says }) => {
  await using chain = await TuningChain.create(everything)
  const result = await chain.tuning.add()
  await damage(chain)
  expect((await fail(chain.tuning.check(result))).msg).toContain(says)
})

test("CHECK names it when the MTU of the host's end is another, where ADD has set it", async () => {
  await using chain = await TuningChain.create({ mtu: 9000 })
  const result = await chain.tuning.add()
  await chain.host.exec("ip", ["link", "set", chain.port, "mtu", "1500"])
  expect((await fail(chain.tuning.check(result))).msg).toContain("on the host failed: expected 9000, found 1500")
  await chain.host.exec("ip", ["link", "set", chain.port, "mtu", "1450"])
  await chain.tuning.del()
  // DEL does not restore an MTU that ADD did not set.
  expect((await chain.host.exec("ip", ["link", "show", chain.port])).stdout).toContain(" mtu 1450 ")
})

test("CHECK of a link that is gone says so", async () => {
  await using chain = await TuningChain.create({ mtu: 1400 })
  const result = await chain.tuning.add()
  await chain.pod.exec("ip", ["link", "del", "eth0"])
  expect((await fail(chain.tuning.check(result))).msg).toContain('"eth0"')
})
