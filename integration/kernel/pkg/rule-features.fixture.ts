/** One interface to the features that add rules. As a program, it runs the steps that it reads from stdin. */
import { Firewall } from "../../../meta/firewall/testing/zones.ts"
import { Hostports } from "../../../meta/portmap/main.ts"
import { Masquerade } from "../../../pkg/masquerade/mod.ts"
import { NamespaceFile } from "../../../pkg/netns/mod.ts"
import { PacketFilter } from "../../../pkg/nftables/mod.ts"
import type { BackendName } from "../../../pkg/rules/mod.ts"
import { AF_INET, AF_INET6, type Family } from "../../../pkg/types/mod.ts"
import { Undo } from "../../../pkg/undo/mod.ts"
import { SpoofCheck } from "../../../plugins/bridge/testing.ts"

export type FeatureName = "masquerade" | "port mappings" | "firewall rules" | "spoof check"

/** A request to a feature. Attachments of network "lab" are named "lab/c1/eth0", "lab/c2/eth0", … */
export type Step =
  | readonly ["add" | "undone" | "check", id: number, asked?: BackendName]
  | readonly ["remove", id: number]
  | readonly ["gc", ...valid: number[]]
  | readonly ["usable", asked?: BackendName]

const specOf = (id: number) => {
  const ip = Uint8Array.of(10, 1, 0, id)
  const mapping = {
    protocol: "tcp",
    hostPort: 8000 + id,
    containerPort: 80,
    hostIp: undefined,
    family: AF_INET,
  } as const
  return {
    owner: { network: "lab", containerId: `c${id}`, ifName: "eth0" },
    addresses: [{ ip, prefix: 16 }],
    ips: [ip],
    mappings: [mapping],
    mapped: [{ family: AF_INET as Family, address: { ip, prefix: 16 }, mappings: [mapping] }],
    port: `veth${id}`,
    mac: `0a:00:00:00:00:0${id}`,
  }
}
type Spec = ReturnType<typeof specOf>

interface Feature {
  add(spec: Spec, asked: BackendName | undefined, undo: Undo): void
  check(spec: Spec, asked: BackendName | undefined): void
  remove(spec: Spec): void
  gc(valid: Spec["owner"][]): void
  requireUsable(asked: BackendName | undefined): void
}

const open: Record<FeatureName, (filter: PacketFilter | undefined) => Feature> = {
  masquerade(filter) {
    const rules = new Masquerade(filter)
    return {
      add: (spec, asked, undo) => rules.add(spec, asked, undo),
      check: (spec, asked) => rules.check(spec, asked),
      remove: ({ owner }) => rules.remove(owner, NamespaceFile.open("")),
      gc: (valid) => rules.gc("lab", valid),
      requireUsable: (asked) => rules.requireUsable(asked),
    }
  },
  "port mappings"(filter) {
    const rules = new Hostports(filter)
    const of = ({ owner, mappings, mapped }: Spec) => ({
      owner,
      netns: "/run/netns/none",
      addresses: mapped,
      mappings,
      snat: true,
      masqAll: false,
      conditions: { [AF_INET]: [], [AF_INET6]: [] },
      localnetLink: undefined,
      openedLink: undefined,
      markMasqBit: 13,
      externalSetMarkChain: undefined,
    })
    return {
      add: (spec, asked, undo) => rules.add(of(spec), asked, undo),
      check: (spec, asked) => rules.check(of(spec), asked),
      remove: ({ owner, mappings, ips }) => rules.remove(owner, { mappings, addresses: ips }),
      gc: (valid) => rules.gc("lab", valid),
      requireUsable: (asked) => rules.requireUsable(asked),
    }
  },
  "firewall rules"(filter) {
    const rules = new Firewall(() => {}, { filter, findFirewalld: () => undefined })
    const of = ({ owner, ips }: Spec) => {
      return { owner, addresses: ips, policy: "open", link: undefined, adminChain: "CNI-ADMIN" } as const
    }
    const config = (backend?: BackendName) => {
      return { backend, ingressPolicy: "open", firewalldZone: "trusted", iptablesAdminChainName: "CNI-ADMIN" } as const
    }
    return {
      add: (spec, asked, undo) => rules.add(of(spec), config(asked), undo),
      check: (spec, asked) => rules.check(of(spec), config(asked)),
      remove: ({ owner, ips }) => rules.remove(owner, config(), { addresses: ips, bridge: undefined }),
      gc: (valid) => rules.gc("lab", valid, config()),
      requireUsable: (asked) => rules.requireUsable(config(asked)),
    }
  },
  "spoof check"(filter) {
    const rules = new SpoofCheck(filter)
    return {
      add: (spec, asked, undo) => rules.add(spec, asked, undo),
      check: (spec, asked) => rules.check(spec, asked),
      remove: ({ owner }) => rules.remove(owner, undefined),
      gc: (valid) => rules.gc("lab", valid),
      requireUsable: (asked) => rules.requireUsable(asked),
    }
  },
}

/** The result of a step: "done" or an error. */
export type Outcome = "done" | { code: number; message: string; details: string | undefined }

/** One line of input for this program. */
export interface Request {
  readonly name: FeatureName
  readonly steps: readonly Step[]
  /** False to act as on a kernel without nf_tables. */
  readonly hasNftables: boolean
}

/** Runs the steps in order. Each step starts without state, like a new plugin process. */
function runSteps({ name, steps, hasNftables }: Request): Outcome[] {
  return steps.map((step) => {
    const filter = hasNftables ? PacketFilter.find() : undefined
    try {
      runStep(open[name](filter), step)
      return "done"
    } catch (error) {
      const { code, message, details } = error as { code: number; message: string; details: string | undefined }
      return { code, message, details }
    } finally {
      filter?.[Symbol.dispose]()
    }
  })
}

function runStep(feature: Feature, step: Step): void {
  using undo = new Undo((line) => {
    throw new Error(line)
  })
  if (step[0] === "check") feature.check(specOf(step[1]), step[2])
  else if (step[0] === "remove") feature.remove(specOf(step[1]))
  else if (step[0] === "gc") feature.gc(step.slice(1).map((id) => specOf(Number(id)).owner))
  else if (step[0] === "usable") feature.requireUsable(step[1])
  else {
    feature.add(specOf(step[1]), step[2], undo)
    if (step[0] === "add") undo.keep()
  }
}

if (import.meta.main)
  for await (const line of console) if (line !== "") console.log(JSON.stringify(runSteps(JSON.parse(line))))
