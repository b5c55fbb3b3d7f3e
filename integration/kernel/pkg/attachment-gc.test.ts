/** Tests what the scaffold's GC finds by owners' names, and how it recognizes a namespace's container. */
import { beforeAll, expect, test } from "bun:test"
import { type ContainerNamespace, linkNames, testWith } from "../../lab/mod.ts"
import { host, onHost, pod, runAttaching, useHost } from "./attaching.fixture.ts"

useHost()
beforeAll(async () => void (await host.exec("ip", "link add up0 type veth peer name up1".split(" "))))

test("GC deletes the pairs of its network's attachments that are not valid, and no other link", async () => {
  const left = await onHost(({ host, callFor, tester, plainConfig, ...kit }) => {
    for (const [at, alias] of ["lab/c1/eth0", "lab/c2/eth0", "other/c1/eth0", undefined].entries())
      kit.addVeth(host, { name: `end${at}`, ...(alias === undefined ? {} : { alias }) }, { name: `peer${at}` })
    kit.addLink(host, { kind: "bridge", name: "end9" })
    kit.setLink(host, kit.getLink(host, "end9"), { alias: "lab/c1/eth0" })
    tester([]).gc(callFor([]), { ...plainConfig, ipam: undefined }, [{ containerID: "c2", ifname: "eth0" }])
    return kit.listLinks(host).flatMap(({ name }) => (name.startsWith("end") ? [name] : []))
  })
  expect(left.sort()).toEqual(["end1", "end2", "end3", "end9"])
  for (const name of left) await host.exec("ip", ["link", "delete", name])
})

testWith(["macvlan"], "GC finds what is in containers alone, where ADD gave them an nsid", async () => {
  const other = await host.addContainer()
  const attach = (namespace: ContainerNamespace, containerId: string) =>
    runAttaching(
      host,
      namespace,
      ({ containerId, sandbox, callFor, tester, plainConfig }) => {
        const call = callFor([], { netns: sandbox.path, containerId, network: { ipam: { type: "static" } } })
        tester([], { kind: "macvlan" }).add(call, plainConfig)
      },
      { containerId },
    )
  await attach(pod, "c1")
  await attach(other, "c2")
  await onHost(({ callFor, tester, plainConfig }) => {
    tester([], { kind: "macvlan" }).gc(callFor([]), plainConfig, [{ containerID: "c2", ifname: "eth0" }])
  })
  expect([await linkNames(pod), await linkNames(other)]).toEqual([["lo"], ["lo", "eth0"]])
})

test("DEL and GC remove what the plugin has in the packet filter before its interface, and go on when they cannot", async () => {
  const said = await onHost(({ host, sandbox, callFor, tester, plainConfig, ...kit }) => {
    const said: string[] = []
    const there = () => (kit.findLink(host, "end0") ? "link" : "no link")
    const stuck = () => {
      throw new Error("it is stuck")
    }
    const rules: NonNullable<NonNullable<Parameters<typeof tester>[1]>["rules"]> = (filter) => [
      {
        remove({ containerId }, { path }, failures) {
          said.push(`remove ${containerId} ${path === sandbox.path} ${filter !== undefined} ${there()}`)
          failures?.attempt("remove the masquerade", stuck)
        },
        gc(network, valid, failures) {
          said.push(`gc ${network} ${valid.map((owner) => Object.values(owner).join("/"))} ${there()}`)
          failures?.attempt("remove the stale masquerade", stuck)
        },
      },
    ]
    const make = () => kit.addVeth(host, { name: "end0", alias: "lab/c1/eth0" }, { name: "peer0" })
    const plugin = tester(said, { rules })
    const config = { ...plainConfig, ipam: undefined }
    const call = callFor(said, { netns: sandbox.path })
    for (const act of [
      () => plugin.del(call, config),
      () => plugin.gc(call, config, [{ containerID: "c2", ifname: "a" }]),
    ]) {
      make()
      try {
        act()
      } catch (error) {
        said.push((error as Error).message, there())
      }
    }
    return said
  })
  expect(said).toEqual([
    "remove c1 true true link",
    "Cannot remove the masquerade",
    "no link",
    "gc lab lab/c2/a link",
    "Cannot remove the stale masquerade",
    "no link",
  ])
})

testWith(["nf_tables"], "what a filter is needed for gets one, and what needs none gets none", async () => {
  const seen = await onHost(({ sandbox, callFor, tester, plainConfig }) => {
    const seen: boolean[] = []
    const note = ({ filter }: { filter: unknown }) => void seen.push(filter !== undefined)
    const place = { netns: sandbox.path, network: { ipam: { type: "static" } } }
    const chained = (sides: { filter: unknown }) => {
      note(sides)
      return { interfaces: [], ips: [], routes: [], dns: {} }
    }
    for (const hasRules of [true, false]) {
      const plugin = tester([], { chained, requireUsable: note })
      plugin.add(callFor([], place), { ...plainConfig, hasRules })
      plugin.status(callFor([], place), { ...plainConfig, hasRules })
    }
    return seen
  })
  expect(seen).toEqual([true, true, false, false])
})

test("a chained plugin works in the namespace that the path leads to, unless the interface there is another container's", async () => {
  const seen = await onHost(({ host, inside, sandbox, callFor, openSandbox, findSandbox, ...kit }) => {
    const lines: string[] = []
    const place = (containerId: string, netns = sandbox.path) => ({
      ...callFor([], { netns, containerId }),
      log: (line: string) => void lines.push(line.replace(netns, "NS")),
    })
    const open = (containerId: string, netns?: string) => {
      try {
        using found = openSandbox(place(containerId, netns))
        return found.inode === sandbox.inode
      } catch (error) {
        const { code, message, details } = error as { code: number; message: string; details?: string }
        return `${code} ${message.replace(sandbox.path, "NS")}; ${details}`
      }
    }
    const find = (containerId: string, netns?: string) => {
      using found = findSandbox(place(containerId, netns))
      return found === undefined ? lines.splice(0).join() : found.inode === sandbox.inode
    }
    const seen: unknown[] = []
    seen.push(open("c1"), find("c1"))
    kit.addVeth(host, { name: "end0", alias: "lab/c1/eth0" }, { name: "eth0", netnsFd: sandbox.fd })
    seen.push(open("c1"), find("c1"), open("c2"), find("c2"))
    kit.setLink(inside, kit.getLink(inside, "eth0"), { name: "net9" })
    seen.push(open("c2"), find("c2"), find("c1"))
    kit.addVeth(host, { name: "end1", alias: "lab/c2/net8" }, { name: "net8", netnsFd: sandbox.fd })
    seen.push(find("c2"), find("c1"))
    kit.setLink(host, kit.getLink(host, "end0"), { alias: "something of the host's" })
    seen.push(find("c2"), find("c1"))
    kit.setLink(host, kit.getLink(host, "end1"), { alias: "something of the host's" })
    seen.push(find("c1"), find("c1", "/run/netns/absent"))
    kit.addVeth(inside, { name: "in0", alias: "lab/c3/eth0" }, { name: "in1" })
    seen.push(find("c1"))
    kit.addLink(inside, { kind: "bridge", name: "eth0" })
    kit.setLink(inside, kit.getLink(inside, "eth0"), { alias: "lab/c3/eth0" })
    seen.push(open("c1"), find("c1"))
    kit.addAltNames(inside, kit.getLink(inside, "eth0"), ["lab:c5:eth0"])
    seen.push(open("c5"), open("c1"))
    for (const name of ["end0", "end1"]) kit.deleteLink(host, kit.getLink(host, name))
    return seen
  })
  const gone = '"NS" is now the namespace of another container: that of this container no longer exists'
  const another =
    '4 Cannot use "NS" as CNI_NETNS: its "eth0" belongs to another container; the interface belongs to "lab/c1/eth0", and CNI_CONTAINERID is "c2"'
  expect<unknown[]>(seen).toEqual([
    ...[true, true], // nothing names the owner
    ...[true, true, another, gone],
    ...[true, gone, true], // the alternative name names the owner
    ...[true, true], // both name the owner
    ...[true, gone],
    ...[true, ""],
    true, // a veth pair inside the container proves nothing
    ...[true, true], // nor does a link of a kind that plugins do not create
    ...[true, true], // nor does an alternative name, because the container can set it
  ])
})

testWith(["nf_tables"], "what fails is named, step by step, where the kernel refuses all changes", async () => {
  await host.exec("ip", ["link", "add", "end0", "type", "veth", "peer", "name", "peer0"])
  await host.exec("ip", ["link", "set", "end0", "alias", "lab/c1/eth0"])
  const messages = await runAttaching(
    host,
    pod,
    ({ sandbox, callFor, tester, plainConfig }) => {
      const plugin = tester([], { rules: () => [] })
      const config = { ...plainConfig, ipam: undefined }
      const call = callFor([], { netns: sandbox.path })
      return [() => plugin.del(call, config), () => plugin.gc(call, config, [])].map((act) => {
        try {
          act()
          return "nothing"
        } catch (error) {
          return (error as Error).message
        }
      })
    },
    undefined,
    true,
  )
  expect(messages).toEqual([
    '2 steps failed: Cannot open netfilter; Cannot delete interface "eth0"',
    "2 steps failed: Cannot open netfilter; Cannot delete orphaned interfaces",
  ])
  await host.exec("ip", ["link", "delete", "end0"])
})

test("no verb leaves a descriptor open, in success and in failure", async () => {
  const left = await onHost(({ sandbox, callFor, tester, plainConfig, openSandbox, findSandbox, ...kit }) => {
    const count = () => kit.readDirectory("/proc/self/fd").length
    const place = { netns: sandbox.path, network: { ipam: { type: "static" } } }
    const config = { ...plainConfig, hasRules: true }
    const said: string[] = []
    const { namespace } = callFor(said, place)
    const call = (network = {}) => ({
      ...callFor(said, { ...place, netns: "" }),
      namespace,
      netns: sandbox.path,
      network: { ...callFor([]).network, ...place.network, ...network },
    })
    const fail = () => {
      throw new Error("no luck")
    }
    const plugin = tester(said, { rules: () => [] })
    const acts: [string, () => void][] = [
      ["ADD", () => void plugin.add(call(), config)],
      ["ADD again", () => void plugin.add(call(), config)],
      ["CHECK", () => plugin.check(call({ prevResult: JSON.parse(said[3] ?? "") }), config)],
      [
        "a CHECK that differs",
        () => tester([], { check: fail }).check(call({ prevResult: JSON.parse(said[3] ?? "") }), config),
      ],
      ["STATUS", () => plugin.status(call(), config)],
      ["a STATUS that refuses", () => tester([], { requireUsable: fail }).status(call(), config)],
      ["openSandbox", () => openSandbox(call())[Symbol.dispose]()],
      ["a refused openSandbox", () => void openSandbox({ ...call(), containerId: "c2" })],
      ["findSandbox", () => findSandbox(call())?.[Symbol.dispose]()],
      ["findSandbox of none", () => void findSandbox({ ...call(), containerId: "c2" })],
      ["GC", () => plugin.gc(call(), config, [])],
      ["DEL", () => plugin.del(call(), config)],
      ["an ADD that fails", () => void tester([], { attach: fail }).add(call(), config)],
      ["DEL of a macvlan", () => tester([], { kind: "macvlan" }).del(call(), config)],
      ["GC of macvlans", () => tester([], { kind: "macvlan" }).gc(call(), config, [])],
    ]
    return acts.flatMap(([what, act]) => {
      const before = count()
      try {
        act()
      } catch {}
      return count() === before ? [] : [what]
    })
  })
  expect(left).toEqual([])
})
