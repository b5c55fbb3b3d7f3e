import { describe, expect, test } from "bun:test"
import { type Element, type KeyQueue, printTransaction } from "../../../pkg/nftables/mod.ts"
import { AF_INET, AF_INET6 } from "../../../pkg/types/mod.ts"
import type { Mapping, PortmapSpec } from "../mapping.ts"
import { type AddPlan, planAdd, planNew } from "./add.ts"
import { type TableSpec, tableSpecs } from "./elements.ts"

const web: Mapping = { protocol: "tcp", hostPort: 8080, containerPort: 80, family: undefined, hostIp: undefined }
const portmap: PortmapSpec = {
  owner: { network: "lab", containerId: "c1", ifName: "eth0" },
  netns: "/run/netns/c1",
  addresses: [{ family: AF_INET, address: { ip: Uint8Array.of(10, 1, 0, 2), prefix: 16 }, mappings: [web] }],
  mappings: [web],
  snat: true,
  masqAll: false,
  conditions: { [AF_INET]: [], [AF_INET6]: [] },
  markMasqBit: 13,
  externalSetMarkChain: undefined,
  localnetLink: undefined,
  openedLink: undefined,
}

function specOf(changes: Partial<PortmapSpec> = {}): TableSpec {
  const [spec] = tableSpecs({ ...portmap, ...changes })
  if (!spec) throw new Error("nothing is mapped")
  return spec
}

function port(comment: string, lastByte: number, hostPort = 8080): Element {
  const key = [Uint8Array.of(6), Uint8Array.of(hostPort >> 8, hostPort & 255)]
  return { key, value: [Uint8Array.of(10, 1, 0, lastByte), Uint8Array.of(0, 80)], comment }
}

/** Returns the plan if the table has only the elements `found`. Each list is one queue, in its order. */
function planFor(spec: TableSpec, found: Element[][], isGone = false): AddPlan {
  const lines = found.map(([first, ...others]): KeyQueue => {
    return { set: spec.layout.ports, key: first?.key ?? [], members: [first, ...others] }
  })
  const rest = spec.groups.flatMap(({ set, elements }): KeyQueue[] => {
    return elements.map(({ key }) => ({ set, key, members: [undefined] }))
  })
  const isFree = ({ set, key }: KeyQueue) => !lines.some((line) => line.set === set && String(line.key) === String(key))
  return planAdd(spec, [...lines, ...rest.filter(isFree)], () => isGone)
}

function plan(spec: TableSpec, found: Element[][], isGone = false): string {
  return printTransaction(planFor(spec, found, isGone).changes.operations)
}

test("in a complete table the elements are created", () => {
  expect(printTransaction(planNew(specOf()))).toBe(
    `create element ip cni_hostports ports { tcp . 8080 comment "lab/c1/eth0" : 10.1.0.2 . 80 }
create element ip cni_hostports hairpin { 10.1.0.0 . 10.1.0.2 comment "lab/c1/eth0" }
create element ip cni_hostports localhost { 10.1.0.2 comment "lab/c1/eth0" }
`,
  )
})

test("every element says how many there are, and where the container's namespace is", () => {
  const notes = specOf().groups.flatMap(({ elements }) => elements.map(({ note }) => note))
  expect(notes).toEqual(["3\t\t16\t/run/netns/c1", "3\t\t16\t/run/netns/c1", "3\t\t16\t/run/netns/c1"])
})

test("what is there already is not touched", () => {
  const spec = specOf()
  const lines = spec.groups.flatMap(({ set, elements }): KeyQueue[] =>
    elements.map((element) => ({ set, key: element.key, members: [element] })),
  )
  expect(planAdd(spec, lines, () => false).changes.operations).toEqual([])
})

test("earlier mappings of this attachment, and of this address in this network, go", () => {
  const text = plan(specOf(), [
    [port("lab/c1/eth0", 2, 1)],
    [port("lab/old/eth0", 2, 2)],
    [port("other/c9/eth0", 2, 3)],
    [port("lab/old/eth0", 2, 4), port("other/old/eth1", 9, 4)],
  ])
  expect(text).toContain("delete element ip cni_hostports ports { tcp . 1, tcp . 2, tcp . 4 }\n")
  expect(text).toContain('ports { tcp . 4 comment "other/old/eth1" : 10.1.0.9 . 80, tcp . 8080 comment "lab/c1/eth0"')
})

test("a port of another container is refused with its name, unless it is gone", () => {
  const held = [[port("lab/c9/eth0", 9)]]
  expect(() => plan(specOf(), held)).toThrow(
    "Cannot map host port 8080/tcp to 10.1.0.2:80 for lab/c1/eth0: it is mapped to 10.1.0.9:80 for lab/c9/eth0",
  )
  expect(plan(specOf(), held, true)).toContain("delete element ip cni_hostports ports { tcp . 8080 }\ncreate element")
  expect(() => plan(specOf(), [[port("other/c9/eth0", 2)]])).toThrow("for other/c9/eth0")
})

describe("a port that another attachment of the container has", () => {
  const [first, second] = [port("other/c1/eth1", 9), port("third/c1/eth2", 8)]

  test("stays there, and this one stands by, last in line", () => {
    const text = plan(specOf(), [[first, second]])
    expect(text).not.toContain("delete")
    expect(text).toContain('ports_standby { tcp . 8080 . 2 comment "lab/c1/eth0" : 10.1.0.2 . 80 }')
    expect(text).not.toMatch(/ports [{] tcp/)
    const { ahead, standingBy } = planFor(specOf(), [[first, second]])
    expect(ahead).toEqual([Uint8Array.of(10, 1, 0, 9)])
    expect(standingBy).toEqual(["8080/tcp"])
  })

  test("is this one's own where it was first, and the place in line is kept", () => {
    const own = specOf().groups[0]?.elements[0]
    for (const line of [[own, first] as const, [first, own, second] as const]) {
      const members = line.filter((one) => one !== undefined)
      expect(plan(specOf(), [members])).not.toMatch(/ports(_standby)? [{]/)
    }
  })

  test("comes into force when the first was a former holder of this address", () => {
    const text = plan(specOf(), [[port("lab/old/eth0", 2), first]])
    expect(text).toContain(
      'create element ip cni_hostports ports { tcp . 8080 comment "other/c1/eth1" : 10.1.0.9 . 80 }',
    )
    expect(text).toContain('ports_standby { tcp . 8080 . 1 comment "lab/c1/eth0" : 10.1.0.2 . 80 }')
  })

  test("is no reason to share with another container, though one of its names is the same", () => {
    for (const holder of ["c1/c9/eth0", "lab/c11/c1", "a/c9/c1"]) {
      expect(() => plan(specOf(), [[port(holder, 9)]])).toThrow(`for ${holder}`)
    }
  })
})

test("an address that another network has too is shared", () => {
  const spec = specOf()
  const hairpin = spec.groups.find(({ set }) => set === spec.layout.hairpin)
  const [own] = hairpin?.elements ?? []
  if (!hairpin || !own) throw new Error("no hairpin")
  const line: KeyQueue = { set: hairpin.set, key: own.key, members: [{ ...own, comment: "other/c9/eth0" }] }
  const { changes, ahead } = planAdd(spec, [line], () => false)
  expect(printTransaction(changes.operations)).toContain(
    'hairpin_standby { 10.1.0.0 . 10.1.0.2 . 1 comment "lab/c1/eth0" }',
  )
  expect(ahead).toEqual([])
})
