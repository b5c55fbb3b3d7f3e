import { expect, test } from "bun:test"
import { type Element, type NamedSet, printTransaction } from "../../../pkg/nftables/mod.ts"
import type { Mapping } from "../mapping.ts"
import type { Request } from "../request.ts"
import { planAdd, planNew } from "./plan.ts"
import type { State } from "./state.ts"
import { type Wanted, wantedOf } from "./wanted.ts"

const web: Mapping = { protocol: "tcp", hostPort: 8080, containerPort: 80, family: undefined, hostIp: undefined }
const request: Request = {
  owner: { network: "lab", containerId: "c1", ifName: "eth0" },
  netns: "/run/netns/c1",
  parts: [{ family: "ip", address: { ip: Uint8Array.of(10, 1, 0, 2), prefix: 16 }, mappings: [web] }],
  mappings: [web],
  snat: true,
  masqAll: false,
  conditions: { ip: [], ip6: [] },
  localnetLink: undefined,
}
const complete = { isBroken: false, hairpinPrefixes: [] }

function want(changes: Partial<Request> = {}): Wanted {
  const [wanted] = wantedOf({ ...request, ...changes })
  if (!wanted) throw new Error("nothing is wanted")
  return wanted
}

/** What is there: elements by the name of their set. */
function stateOf({ layout }: Wanted, found: Record<string, Element[]>): State {
  const sets: NamedSet[] = [layout.ports, layout.addressPorts, layout.hairpin]
  const entries = sets.map((set) => {
    const elements = found[set.name] ?? []
    return [set, { elements, count: elements.length }] as const
  })
  return { found: new Map(entries), conditions: [] }
}

function port(comment: string, lastByte: number, hostPort = 8080): Element {
  const key = [Uint8Array.of(6), Uint8Array.of(hostPort >> 8, hostPort & 255)]
  return { key, value: [Uint8Array.of(10, 1, 0, lastByte), Uint8Array.of(0, 80)], comment }
}

function plan(wanted: Wanted, found: Record<string, Element[]>, isGone = false): string {
  return printTransaction(planAdd(wanted, stateOf(wanted, found), complete, () => isGone).operations)
}

test("in a complete table the elements are created, and the interface is recorded", () => {
  expect(printTransaction(planNew(want({ localnetLink: "br0" })))).toBe(
    `create element ip cni_hostports ports { tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80 }
create element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 comment "lab/c1/eth0" }
create element ip cni_hostports localhost { 10.1.0.2 comment "lab/c1/eth0" }
add element ip cni_hostports localnet_links { "br0" }
`,
  )
})

test("every element says how many there are, and where the container's namespace is", () => {
  const notes = want().groups.flatMap(({ elements }) => elements.map(({ note }) => note))
  expect(notes).toEqual(["3\t\t16\t/run/netns/c1", "3\t\t16\t/run/netns/c1", "3\t\t16\t/run/netns/c1"])
})

test("what is there already is not touched", () => {
  const wanted = want()
  const found = Object.fromEntries(wanted.groups.map(({ set, elements }) => [set.name, [...elements]]))
  expect(plan(wanted, found)).not.toContain("ports {")
  expect(plan(wanted, found)).not.toContain("delete")
})

test("earlier mappings of this attachment, and of this address in this network, go", () => {
  const text = plan(want(), {
    ports: [port("lab/c1/eth0", 2, 1), port("lab/old/eth0", 2, 2), port("other/c9/eth0", 2, 3)],
  })
  expect(text).toContain("delete element ip cni_hostports ports { tcp . 1, tcp . 2 }\n")
  expect(text).toContain('create element ip cni_hostports ports { tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80 }')
})

test("a port of somebody else is refused with his name, unless he is gone", () => {
  const held = { ports: [port("lab/c9/eth0", 9)] }
  expect(() => plan(want(), held)).toThrow(
    "Cannot map host port 8080/tcp to 10.1.0.2:80 for lab/c1/eth0: it is mapped to 10.1.0.9:80 for lab/c9/eth0",
  )
  expect(plan(want(), held, true)).toContain("delete element ip cni_hostports ports { tcp . 8080 }\ncreate element")
  const sameAddress = { ports: [port("other/c9/eth0", 2)] }
  expect(() => plan(want(), sameAddress)).toThrow("for other/c9/eth0")
})

test("missing rules are added, and all of them when the table is broken", () => {
  const wanted = want()
  const text = (isBroken: boolean, hairpinPrefixes: number[]) =>
    printTransaction(planAdd(wanted, undefined, { isBroken, hairpinPrefixes }, () => false).operations)
  expect(text(false, [16]).match(/add rule.*/g)).toEqual([expect.stringContaining("& 255.255.0.0 .")])
  expect(text(true, [16, 24]).match(/add rule/g)).toHaveLength(10)
})
