/** Tests the verbs of `pkg/attachment` with a minimal plugin, on a real kernel; `ip` and `nft` show the results. */
import { expect, test } from "bun:test"
import type { Result } from "../../../pkg/types/mod.ts"
import { linkNames, testWith } from "../../lab/mod.ts"
import { host, onHost, pod, useHost } from "./attaching.fixture.ts"

useHost()
const lo = ["lo"]

test("ADD leases, makes the interface and answers; CHECK finds it, and DEL leaves nothing", async () => {
  const { said, up } = await onHost(({ sandbox, inside, getLink, callFor, tester, plainConfig }) => {
    const said: string[] = []
    const leased = { ips: [{ address: "10.1.0.5/24" }], routes: [{ dst: "10.9.0.0/16" }], dns: { search: ["lease"] } }
    const network = { ipam: { type: "static" } }
    const place = { netns: sandbox.path, network, leased }
    tester(said).add(callFor(said, place), { ...plainConfig, dns: undefined })
    const up = getLink(inside, "eth0").attributes.alias
    const prevResult = JSON.parse(said.at(-1) ?? "")
    tester(said).check(callFor(said, { ...place, network: { ...network, prevResult } }), plainConfig)
    tester(said).del(callFor(said, place), plainConfig)
    return { said, up }
  })
  const [answered] = said.splice(3, 1)
  expect(said).toEqual(["static ADD", "attach", "answer", "static CHECK", "static DEL"])
  const { interfaces, ...rest } = JSON.parse(answered ?? "") as Result
  expect(rest).toEqual({
    ips: [{ address: "10.1.0.5/24", interface: 0 }],
    routes: [{ dst: "10.9.0.0/16" }],
    dns: { search: ["lease"] },
  })
  expect(interfaces[0]).toMatchObject({ name: "eth0", sandbox: pod.path, mtu: 1500 })
  expect(up).toBeUndefined() // the alias with the owner is on the host's end
  expect([await linkNames(host), await linkNames(pod)]).toEqual([lo, lo])
})

test("with DHCP the interface is there before the lease, and answered with the MTU that the lease has given it", async () => {
  const [dhcp, other] = await onHost(
    ({ sandbox, inside, setLink, callFor, tester, plainConfig, deleteLink, getLink }) =>
      ["dhcp", "static"].map((type) => {
        const said: string[] = []
        const call = callFor(said, { netns: sandbox.path, network: { ipam: { type } } })
        const { add } = call.delegate
        const changing = (name: string) => {
          const lease = add(name)
          if (name === "dhcp") setLink(inside, "eth0", { mtu: 1300 })
          return lease
        }
        tester(said).add({ ...call, delegate: { ...call.delegate, add: changing } }, { ...plainConfig, ipam: type })
        deleteLink(inside, getLink(inside, "eth0"))
        return said
      }),
  )
  const mtus = (said: string[] = []) =>
    (JSON.parse(said[3] ?? "") as Result).interfaces.map(({ name, mtu }) => [name === "eth0", mtu])
  expect([dhcp?.slice(0, 3), mtus(dhcp)]).toEqual([
    ["attach", "dhcp ADD", "answer"],
    [
      [true, 1300],
      [false, 1500],
    ],
  ])
  expect([other?.slice(0, 3), mtus(other)]).toEqual([
    ["static ADD", "attach", "answer"],
    [
      [true, 1500],
      [false, 1500],
    ],
  ])
})

test("an ADD that is repeated leases nothing and says what is there; a device without an interface is not in its way", async () => {
  await pod.exec("ip", ["link", "add", "eth0", "type", "bridge"])
  const { said, details } = await onHost(({ sandbox, callFor, tester, plainConfig }) => {
    const said: string[] = []
    let details = ""
    try {
      tester(said).add(callFor(said, { netns: sandbox.path }), plainConfig)
    } catch (error) {
      details = String(error).replace(sandbox.path, "NS")
    }
    const hooks = { kind: undefined, isUserspace: () => true, attach: () => [] }
    tester(said, hooks).add(callFor(said, { netns: sandbox.path, network: { ipam: { type: "static" } } }), plainConfig)
    return { said, details }
  })
  expect(details).toBe(
    'Cannot create interface "eth0" in "NS": it already exists; run DEL for its attachment first, or choose another CNI_IFNAME',
  )
  expect(said.slice(0, 2)).toEqual(["static ADD", "answer"])
})

test("a device without an interface is answered as it is, though its addresses come by DHCP", async () => {
  const said = await onHost(({ sandbox, callFor, tester, plainConfig }) => {
    const said: string[] = []
    const attach = () => [{ name: "eth0", sandbox: "NS", mtu: 9000 }]
    const call = callFor(said, { netns: sandbox.path, network: { ipam: { type: "dhcp" } } })
    tester(said, { kind: undefined, isUserspace: () => true, attach }).add(call, { ...plainConfig, ipam: "dhcp" })
    return said
  })
  expect(said.slice(0, 2)).toEqual(["dhcp ADD", "answer"])
  expect(JSON.parse(said[2] ?? "").interfaces).toEqual([{ name: "eth0", sandbox: "NS", mtu: 9000 }])
})

testWith(
  ["nf_tables"],
  "an ADD whose answer cannot be written, or whose plugin fails, is undone with its lease and its masquerade",
  async () => {
    const events = await onHost(({ sandbox, callFor, tester, plainConfig }) => {
      const leased = { ips: [{ address: "10.1.0.5/24" }] }
      const failing = (): never => {
        throw new Error("no luck")
      }
      return [{}, { attach: failing }, { prepare: failing }].map((hooks) => {
        const said: string[] = []
        const call = callFor(said, {
          netns: sandbox.path,
          network: { ipam: { type: "static" } },
          leased,
          refused: "answer",
        })
        try {
          tester(said, hooks).add(call, { ...plainConfig, ipMasq: true, hasRules: true })
        } catch (error) {
          said.push((error as Error).message)
        }
        return said
      })
    })
    expect(events).toEqual([
      ["static ADD", "attach", "answer", "static DEL", "answer is refused"],
      ["static ADD", "static DEL", "no luck"],
      ["no luck"],
    ])
    expect([await linkNames(host), await linkNames(pod)]).toEqual([lo, lo])
    expect((await host.exec("nft", ["list", "ruleset"])).stdout).toBe("")
  },
)

test("a chained plugin answers what it has taken over, and makes and leases nothing", async () => {
  const said = await onHost(({ sandbox, callFor, tester, plainConfig }) => {
    const said: string[] = []
    const chained = () => ({ interfaces: [], ips: [], routes: [], dns: { domain: "taken" } })
    tester(said, { chained }).add(callFor(said, { netns: sandbox.path }), plainConfig)
    return said
  })
  expect(said).toEqual(["answer", '{"interfaces":[],"ips":[],"routes":[],"dns":{"domain":"taken"}}'])
  expect(await linkNames(pod)).toEqual(lo)
})

test("without an IPAM plugin the addresses are those of the chain where the plugin takes them, and else none", async () => {
  const given = await onHost(({ sandbox, inside, callFor, tester, plainConfig, deleteLink, getLink }) => {
    const prevResult = { interfaces: [], ips: [{ address: "10.1.0.5/24" }], routes: [{ dst: "10.9.0.0/16" }], dns: {} }
    const dns = { nameservers: ["192.0.2.53"] }
    return [
      { hooks: { takesAddresses: true }, prevResult },
      { hooks: { takesAddresses: true }, prevResult: { ...prevResult, ips: [] } },
      { hooks: { takesAddresses: true } },
      { hooks: {}, prevResult },
    ].map(({ hooks, prevResult }) => {
      const said: string[] = []
      const call = callFor(said, { netns: sandbox.path, network: prevResult ? { prevResult } : {} })
      tester(said, hooks).add(call, { ...plainConfig, ipam: undefined, dns })
      deleteLink(inside, getLink(inside, "eth0"))
      const { interfaces, ...rest } = JSON.parse(said.at(-1) ?? "")
      return rest
    })
  })
  const dns = { nameservers: ["192.0.2.53"] }
  const none = { ips: [], routes: [], dns }
  expect(given).toEqual([
    { ips: [{ address: "10.1.0.5/24", interface: 0 }], routes: [{ dst: "10.9.0.0/16" }], dns },
    none,
    none,
    none,
  ])
})

test("an MTU without room for IPv6 is refused before the interface is made, and the lease goes back", async () => {
  const said = await onHost(({ sandbox, callFor, tester, plainConfig }) => {
    const said: string[] = []
    const leased = { ips: [{ address: "fd00::5/64" }] }
    try {
      const call = callFor(said, { netns: sandbox.path, leased, network: { ipam: { type: "static" } } })
      tester(said).add(call, { ...plainConfig, mtu: 1279 })
    } catch (error) {
      said.push((error as Error).message)
    }
    return said
  })
  expect(said).toEqual(["static ADD", "static DEL", 'Cannot use "mtu" 1279 with fd00::5/64'])
})

testWith(
  ["nf_tables"],
  "what is masqueraded is checked, and nothing without addresses of an IPAM plugin's",
  async () => {
    const [given, missing, status] = await onHost(
      ({ sandbox, inside, callFor, tester, plainConfig, deleteLink, getLink }) => {
        const said: string[] = []
        const network = { ipam: { type: "static" } }
        const place = { netns: sandbox.path, network, leased: { ips: [{ address: "10.1.0.5/24" }] } }
        const prevResult = { interfaces: [], ips: [{ address: "10.7.0.5/24" }], routes: [], dns: {} }
        const config = { ...plainConfig, ipMasq: true, hasRules: true }
        const taking = callFor(said, { netns: sandbox.path, network: { prevResult } })
        tester(said, { takesAddresses: true }).add(taking, { ...config, ipam: undefined })
        deleteLink(inside, getLink(inside, "eth0"))
        const given = said.filter((line) => line.includes("masquerade"))
        tester(said).add(callFor(said, place), config)
        const answered = JSON.parse(said.at(-1) ?? "")
        const checked = callFor(said, { ...place, network: { ...network, prevResult: answered } })
        tester(said).check(checked, config)
        let missing = "nothing"
        try {
          tester(said).check(
            callFor(said, { ...place, containerId: "c9", network: { ...network, prevResult: answered } }),
            config,
          )
        } catch (error) {
          missing = (error as Error).message
        }
        tester(said).check(
          callFor(said, { ...place, containerId: "c9", network: { ...network, prevResult: answered } }),
          plainConfig,
        )
        tester(said).status(callFor(said, place), config)
        return [given, missing, said.at(-1)]
      },
    )
    expect([given, status]).toEqual([[], "static STATUS"])
    expect(missing).toStartWith("Cannot find the masquerade of lab/c9/eth0")
    const { stdout } = await host.exec("nft", ["list", "set", "ip", "cni_masquerade", "containers"])
    expect(stdout).toContain('10.1.0.5 comment "lab/c1/eth0"')
    expect(stdout).not.toContain("10.7.0.5")
    await host.exec("nft", ["delete", "table", "ip", "cni_masquerade"])
  },
)
