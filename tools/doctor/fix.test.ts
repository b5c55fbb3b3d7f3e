import { expect, test } from "bun:test"
import { existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Lab } from "../../pkg/libcni/testing/lab.ts"
import { carryOut, describeDeletion, isDeletable, planDeletion } from "./fix.ts"
import { attachmentOf, cachedOf, inputOf } from "./testing/inputs.ts"

const inFile = { name: "pods", plugins: [{ type: "ptp" }, { type: "tuning" }] }
const networks = [
  { file: "a", error: "broken" },
  { file: "b", network: { name: "lan" } },
  { file: "c", network: inFile },
]
const lease = (containerId: string, ifName: string) => ({ holder: { containerId, ifName } })
const stores = [
  { network: "pods", directory: "/own", leases: [{ holder: "torn" }, lease("c1", "eth0")] },
  { network: "pods", directory: "/another", leases: [lease("c1", "net1"), lease("c2", "eth0")] },
  { network: "lan", directory: "/lan", leases: [lease("c1", "eth0")] },
]

test("an orphan is deleted by what ADD was called with, or else by the network's file", () => {
  const cached = cachedOf([{ type: "bridge" }, { type: "portmap" }])
  const planned = (more: object) => describeDeletion(planDeletion(attachmentOf(more), inputOf({ networks })))
  expect(planned(cached)).toBe("DEL of pods/c1/eth0 by portmap, bridge")
  expect(planned({})).toBe("DEL of pods/c1/eth0 by tuning, ptp")
  expect(planned(cachedOf("no JSON"))).toBe("DEL of pods/c1/eth0 by tuning, ptp")
})

test("without a configuration its leases are released, of its own stores alone", () => {
  const deletion = planDeletion(attachmentOf(), inputOf({ stores }))
  expect(deletion).toEqual({ orphan: attachmentOf(), network: undefined, stores: ["/own"] })
  expect(describeDeletion(deletion)).toBe(
    "release the lease of pods/c1/eth0 (its network no longer has a configuration for a DEL)",
  )
  expect(isDeletable(deletion)).toBe(true)
  expect(isDeletable(planDeletion(attachmentOf(), inputOf()))).toBe(false)
})

test("rules that name no interface are deleted by themselves, also where there is a configuration", () => {
  const rules = [{ place: "ip nat POSTROUTING", backend: "iptables", owner: 'name: "pods" id: "c1"' }] as const
  const deletion = planDeletion(attachmentOf({ ifName: "", rules }), inputOf({ networks }))
  expect(isDeletable(deletion)).toBe(true)
  expect(describeDeletion(deletion)).toBe(
    "delete the rules in ip nat POSTROUTING of pods/c1 (the rules do not name an interface for a DEL)",
  )
})

test("the plugins are called as they were for ADD, and without a namespace", async () => {
  using lab = new Lab()
  lab.plugin("one")
  const args = [["K8S_POD_NAME", "web"]]
  const capabilityArgs = { mac: "02:00:00:00:00:01" }
  const plugins = [{ type: "one", capabilities: { mac: true } }]
  const orphan = attachmentOf({ ...cachedOf(plugins, { args, capabilityArgs }), netns: "/run/netns/gone" })
  await carryOut(planDeletion(orphan, inputOf()), lab.runtime)
  expect(lab.calls).toMatchObject([
    {
      verb: "DEL",
      id: "c1",
      ifname: "eth0",
      netns: "",
      args: "K8S_POD_NAME=web",
      stdin: { name: "pods", runtimeConfig: capabilityArgs },
    },
  ])
  const other = planDeletion(
    attachmentOf(),
    inputOf({
      networks: [
        {
          network: {
            ...inFile,
            cniVersion: "1.1.0",
            plugins: [{ type: "one", capabilities: {}, raw: { type: "one" } }],
          },
        },
      ],
    }),
  )
  await carryOut(other, lab.runtime)
  expect(lab.calls[1]).toMatchObject({ verb: "DEL", args: "" })
})

test("a lease that is released is of this container's interface alone", async () => {
  using lab = new Lab()
  const directory = join(lab.root, "pods")
  mkdirSync(directory)
  writeFileSync(join(directory, "10.85.0.2"), "c1\r\neth0")
  writeFileSync(join(directory, "10.85.0.3"), "c1\r\nnet1")
  await carryOut({ orphan: attachmentOf(), network: undefined, stores: [directory] }, lab.runtime)
  expect(["10.85.0.2", "10.85.0.3"].map((name) => existsSync(join(directory, name)))).toEqual([false, true])
})
