/** Tests the scaffold's CHECK, and the objects that DEL and GC find by their owner's name, on a real kernel. */
import { beforeAll, expect, test } from "bun:test"
import { linkNames, testWith } from "../../lab/mod.ts"
import { host, onHost, useHost } from "./attaching.fixture.ts"

useHost()
beforeAll(async () => void (await host.exec("ip", "link add up0 type veth peer name up1".split(" "))))
const own = ["lo", "up0", "up1"]
const namesOnHost = async () => (await linkNames(host)).sort()

test("CHECK names the first difference of the interface, and has the plugin compare what it alone knows", async () => {
  const refusals = await onHost(({ sandbox, inside, getLink, setLink, callFor, tester, plainConfig, ...kit }) => {
    const said: string[] = []
    const leased = { ips: [{ address: "10.1.0.5/24" }], routes: [{ dst: "10.9.0.0/16" }] }
    const place = { netns: sandbox.path, leased, network: { ipam: { type: "static" } } }
    tester(said).add(callFor(said, place), plainConfig)
    const prevResult = JSON.parse(said.at(-1) ?? "")
    const eth0 = getLink(inside, "eth0")
    const attempt = (hooks: Parameters<typeof tester>[1] = {}, own = {}) => {
      try {
        tester([], hooks).check(callFor([], { ...place, network: { prevResult } }), { ...plainConfig, ...own })
        return "nothing"
      } catch (error) {
        return (error as Error).message.replace(sandbox.path, "NS").replace(/, found fe80.*/, "") // link-local addresses of the kernel
      }
    }
    const texts = [attempt()]
    texts.push(attempt({ kind: "macvlan" }), attempt({ kind: "macvlan", chained: () => undefined }))
    const refuse = (what: string) => () => {
      throw new Error(what)
    }
    texts.push(attempt({ check: refuse("its own") }), attempt({ checkRoutes: refuse("its own routes") }))
    setLink(inside, eth0, { mtu: 1400 })
    texts.push(attempt())
    setLink(inside, eth0, { mtu: 1500, up: false })
    texts.push(
      attempt(),
      attempt({}, { disableContainerInterface: true }),
      attempt({ checkRoutes: () => {} }, { disableContainerInterface: true }),
    )
    setLink(inside, eth0, { up: true })
    for (const spec of kit.planRoutes(prevResult, eth0)) kit.addRoute(inside, spec)
    texts.push(attempt())
    kit.deleteAddress(inside, eth0, { ...(kit.parseCidr("10.1.0.5/24") as { ip: Uint8Array; prefix: number }) })
    texts.push(attempt())
    kit.deleteLink(inside, eth0)
    texts.push(attempt())
    return texts
  })
  const missing = "Check of routes failed: expected 10.9.0.0/16 dev eth0, found no route to it"
  expect(refusals).toEqual([
    "nothing",
    'Check of interface "eth0" in "NS" failed: expected a macvlan, found kind "veth"',
    "nothing",
    "its own",
    "its own routes",
    'Check of MTU of "eth0" failed: expected 1500, found 1400',
    'Check of interface "eth0" failed: expected up, found down',
    missing,
    "nothing",
    "nothing",
    'Check of addresses of "eth0" failed: expected 10.1.0.5/24',
    'Check of interface "eth0" in "NS" failed: expected a veth, found none',
  ])
  expect(await namesOnHost()).toEqual(own)
})

test("DEL takes the pair by its name where that is the owner's or upstream's, and any of the owner's by its alias", async () => {
  const left = await onHost(({ host, sandbox, inside, callFor, tester, plainConfig, ...kit }) => {
    const del = (netns: string, containerId = "c1") =>
      tester([]).del(callFor([], { netns, containerId }), { ...plainConfig, ipam: undefined })
    const names = (route: typeof host) =>
      kit.listLinks(route).flatMap(({ name, kind }) => (kind === "veth" ? [name] : []))
    const make = (host0: string, alias: string | undefined, ifName = "eth0") =>
      kit.addVeth(
        host,
        { name: host0, ...(alias === undefined ? {} : { alias }) },
        { name: ifName, netnsFd: sandbox.fd },
      )
    const all = () =>
      [...names(host), ...names(inside)]
        .sort()
        .filter((name) => !name.startsWith("up"))
        .join()
    const seen: string[] = []
    make("own", "lab/c1/eth0")
    del(sandbox.path)
    seen.push(all())
    make("upstreams", undefined) // no alias, as created by the Go plugins
    del(sandbox.path)
    seen.push(all())
    make("strangers", "lab/c2/eth0")
    del(sandbox.path)
    seen.push(all())
    make("renamed", "lab/c1/eth0", "net9")
    make("other", "lab/c1/eth00", "net8")
    del(sandbox.path)
    seen.push(all())
    make("gone", "lab/c1/eth0", "net7")
    del("/run/netns/absent")
    seen.push(all())
    del("")
    del(sandbox.path, "c2")
    seen.push(all())
    return seen
  })
  expect(left).toEqual([
    "",
    "",
    "eth0,strangers",
    "eth0,net8,other,strangers",
    "eth0,net8,other,strangers",
    "net8,other",
  ])
  await host.exec("ip", ["link", "delete", "other"])
  expect(await namesOnHost()).toEqual(own)
})

testWith(
  ["macvlan"],
  "an interface without a part on the host is found in the container: by name, and renamed by alias",
  async () => {
    const left = await onHost(({ sandbox, inside, callFor, tester, plainConfig, ...kit }) => {
      const macvlan = tester([], { kind: "macvlan" })
      const config = { ...plainConfig, ipam: undefined }
      const call = callFor([], { netns: sandbox.path })
      const kinds = () =>
        kit
          .listLinks(inside)
          .flatMap(({ name, kind }) => (kind === "" ? [] : [`${kind} ${name}`]))
          .join()
      const seen: string[] = []
      macvlan.add(call, config)
      seen.push(kinds())
      macvlan.del(callFor([], { netns: sandbox.path, containerId: "c2" }), config)
      seen.push(kinds())
      macvlan.del(callFor([], { netns: "/run/netns/absent" }), config)
      macvlan.del(call, config)
      seen.push(kinds())
      macvlan.add(call, config)
      kit.setLink(inside, "eth0", { alias: "" }) // no alias, as created by the Go plugins
      macvlan.del(call, config)
      seen.push(kinds())
      macvlan.add(call, config)
      kit.setLink(inside, kit.getLink(inside, "eth0"), { name: "net9" })
      kit.addLink(inside, { kind: "bridge", name: "eth0" })
      kit.setLink(inside, "eth0", { alias: "lab/c1/eth0" })
      macvlan.del(call, config)
      seen.push(kinds())
      return seen
    })
    expect(left).toEqual(["macvlan eth0", "macvlan eth0", "", "", "bridge eth0"])
  },
)
