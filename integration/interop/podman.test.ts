import { expect, test } from "bun:test"
import { sourcesIn, startFirewalld } from "../firewall/firewalld-lab.ts"
import { expectUnchanged, isAllocationTrace, waitFor } from "../lab/mod.ts"
import { askFromHost, askName, nameServer } from "./busybox.ts"
import { Podman } from "./podman.ts"

test("a published port is reached from the host, on every address of it", async () => {
  await using podman = await Podman.create()
  await podman.start("web", nameServer, "--publish", "8080:80")
  for (const address of ["127.0.0.1", "10.88.0.1"]) {
    expect(await askFromHost(podman.host, address, 8080)).toBe("web")
  }
})

test("containers talk with each other, directly and through the published port", async () => {
  await using podman = await Podman.create()
  await podman.start("one", nameServer, "--publish", "8081:80")
  await podman.start("two", nameServer)
  for (const [from, address, port, answer] of [
    ["two", await podman.address("one"), 80, "one"],
    ["one", await podman.address("two"), 80, "two"],
    ["two", "10.88.0.1", 8081, "one"],
  ] as const) {
    const ask = async () => (await podman.run("exec", from, ...askName(address, port))) || undefined
    const found = await waitFor(ask, `an answer to ${from} on ${address}, port ${port}`)
    expect({ from, address, port, found }).toEqual({ from, address, port, found: answer })
  }
})

test("a container reaches itself through its published port, whether or not bridged packets pass the packet filter", async () => {
  await using podman = await Podman.create()
  await podman.start("one", nameServer, "--publish", "8081:80")
  for (const calls of [1, 0]) {
    // Kubernetes requires 1. Without br_netfilter this setting does not exist, and bridged packets do not pass the
    // packet filter.
    await podman.host.tryExec("sysctl", ["-w", `net.bridge.bridge-nf-call-iptables=${calls}`])
    const ask = async () => (await podman.run("exec", "one", ...askName("10.88.0.1", 8081))) || undefined
    expect(await waitFor(ask, `an answer with bridge-nf-call-iptables=${calls}`)).toBe("one")
  }
})

test("every plugin of the chain has done its work: sysctl, and the address and MAC that were asked for", async () => {
  await using podman = await Podman.create()
  await podman.start("web", nameServer, "--ip", "10.88.0.77", "--mac-address", "02:00:00:00:00:77")
  const inside = (...command: string[]) => podman.run("exec", "web", "/bin/busybox", ...command)
  expect(await inside("cat", "/proc/sys/net/ipv4/conf/eth0/arp_filter")).toBe("1")
  expect(await inside("cat", "/sys/class/net/eth0/address")).toBe("02:00:00:00:00:77")
  expect(await inside("ip", "-o", "-4", "address", "show", "eth0")).toContain("inet 10.88.0.77/16")
  expect(await inside("ip", "route")).toContain("default via 10.88.0.1 dev eth0")
})

test("a container that restarts has its port again, and the host one container's traces", async () => {
  await using podman = await Podman.create()
  await podman.start("web", nameServer, "--publish", "8080:80")
  const first = await podman.host.snapshot()
  await podman.run("restart", "--time", "0", "web")
  expect(await askFromHost(podman.host, "127.0.0.1", 8080)).toBe("web")
  const second = await podman.host.snapshot()
  for (const section of ["links", "nftables"]) expect(second[section]).toHaveLength(first[section]?.length ?? -1)
})

test("`podman network reload` brings back what `nft flush ruleset` has taken", async () => {
  await using podman = await Podman.create()
  await podman.start("web", nameServer, "--publish", "8080:80")
  const { stdout: before } = await podman.host.exec("nft", ["list", "ruleset"])
  await podman.host.exec("nft", ["flush", "ruleset"])
  await podman.run("network", "reload", "web")
  const { stdout: after } = await podman.host.exec("nft", ["list", "ruleset"])
  // After the flush it is unknown whether portmap enabled route_localnet, so the set of links is empty and the guard is
  // recorded.
  const rules = (text: string) =>
    text
      .replace(/\n\s*elements = { "cni-podman0" }/, "")
      .replace(/\tset localnet_guarded {[^}]*}\n\n/, "")
      .split(/^(?=table |\t(?:chain|set|map) )/m) // the order of creation does not matter
      .map((block) => block.replace(/[\s}]+$/, ""))
      .sort()
  expect(after).toContain("set localnet_guarded")
  expect(rules(after)).toEqual(rules(before))
  expect(await askFromHost(podman.host, "127.0.0.1", 8080)).toBe("web")
})

test("beside firewalld `podman network reload --all` brings back what `nft flush ruleset` has taken, and `podman rm` leaves nothing", async () => {
  await using podman = await Podman.create()
  await startFirewalld(podman.host)
  for (const [index, name] of ["one", "two"].entries())
    await podman.start(name, nameServer, "--publish", `${8080 + index}:80`)
  await podman.host.exec("nft", ["flush", "ruleset"])
  const { exitCode, stderr } = await podman.try("network", "reload", "--all")
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  for (const [index, name] of ["one", "two"].entries())
    expect(await askFromHost(podman.host, "127.0.0.1", 8080 + index)).toBe(name)
  expect((await podman.host.exec("ls", ["/var/lib/cni/networks/podman"])).stdout).toMatch(
    /10\.88\.0\.2\n10\.88\.0\.3\n/,
  )
  await podman.remove("one", "two")
  expect((await podman.host.exec("ls", ["/var/lib/cni/networks/podman"])).stdout).not.toContain("10.88")
})

test("after firewalld's reload `podman network reload --all` adds the sources again", async () => {
  await using podman = await Podman.create()
  await startFirewalld(podman.host)
  for (const name of ["one", "two"]) await podman.start(name, nameServer)
  const before = await sourcesIn(podman.host)
  expect(before).toEqual(["10.88.0.2/32", "10.88.0.3/32"])
  await podman.host.exec("firewall-cmd", ["--reload"])
  expect(await sourcesIn(podman.host)).toEqual([])
  await podman.run("network", "reload", "--all")
  expect(await sourcesIn(podman.host)).toEqual(before)
  await podman.remove("one", "two")
  expect(await sourcesIn(podman.host)).toEqual([])
})

test("a port that is taken is refused, and nothing of the container stays", async () => {
  await using podman = await Podman.create()
  await podman.start("web", nameServer, "--publish", "8080:80")
  const before = await podman.host.snapshot()
  const second = await podman.try("run", "--rm", "--publish", "8080:80", "--rootfs", "/run/busybox", ...nameServer)
  expect(second.exitCode).toBe(126)
  expect(second.stderr).toContain("8080")
  expectUnchanged(before, await podman.host.snapshot(), isAllocationTrace)
})

test("when the containers are removed only the bridge stays", async () => {
  await using podman = await Podman.create()
  await podman.start("warm-up", nameServer, "--publish", "8080:80")
  await podman.remove("warm-up")
  const before = await podman.host.snapshot()
  expect(before.nftables).toEqual([])
  const names = ["one", "two", "three"]
  for (const [index, name] of names.entries()) await podman.start(name, nameServer, "--publish", `${8080 + index}:80`)
  await podman.run("kill", "two")
  await podman.remove(...names)
  expectUnchanged(before, await podman.host.snapshot(), isAllocationTrace)
})
