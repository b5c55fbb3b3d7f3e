import { expect, test } from "bun:test"
import type { Numbered } from "../../pkg/flight/mod.ts"
import type { Node } from "../node/mod.ts"
import { familiesOf } from "./metrics.ts"

const lineOf = (sequence: number, more: Partial<Numbered["line"]>): Numbered => ({
  sequence,
  line: {
    time: "2026-01-01T00:00:00.000Z",
    plugin: "bridge",
    verb: "ADD",
    exitCode: 0,
    ms: 3,
    ...more,
  } as Numbered["line"],
})

const node = {
  networks: [{ network: { name: "b" } }, { file: "broken", error: "x" }],
  cache: [],
  links: [{ index: 1, name: "veth1", kind: "veth", alias: "a/c1/eth0", addresses: [] }],
  rules: { owned: [], ports: [] },
  stores: [
    {
      network: "b",
      leases: [
        {
          address: "10.1.0.2",
          holder: { containerId: "c2", ifName: "eth0" },
          writtenMs: 1,
          netns: { path: "/x", exists: true },
        },
      ],
      rangeSets: [
        { ranges: "10.1.0.1-10.1.0.4", used: 1, total: 4n },
        { ranges: "10.2.0.1-10.2.0.1", used: 2, total: 1n },
      ],
    },
  ],
  unread: [],
} as unknown as Node

/** Returns each sample as "name{label=value} number". */
const samples = (lines: readonly Numbered[] | undefined) =>
  familiesOf(node, lines).flatMap(({ name, samples }) =>
    samples.map(({ suffix = "", labels, value }) => {
      const pairs = Object.entries(labels).map(([key, text]) => `${key}=${text}`)
      return `${name}${suffix}{${pairs.join()}} ${value}`
    }),
  )

test("a node's networks, be they configured or only seen: attachments, orphans, and addresses", () => {
  expect(samples(undefined).slice(1)).toEqual([
    "cni_attachments{network=a} 1",
    "cni_attachments{network=b} 1",
    "cni_orphans{network=a} 1",
    "cni_orphans{network=b} 0",
    "cni_addresses_used{network=b,range=10.1.0.1-10.1.0.4} 1",
    "cni_addresses_used{network=b,range=10.2.0.1-10.2.0.1} 2",
    "cni_addresses_free{network=b,range=10.1.0.1-10.1.0.4} 3",
    "cni_addresses_free{network=b,range=10.2.0.1-10.2.0.1} 0",
    "cni_recorder_on{} 0",
  ])
})

test("what the recorder has: calls by their outcome, errors by their code, and how long they took", () => {
  const lines = [
    lineOf(7, { ms: 2 }),
    lineOf(8, { ms: 2.1 }),
    lineOf(9, { ms: 20_000, exitCode: 1, code: 11 }),
    lineOf(10, { plugin: "ptp", verb: "DEL", ms: 1, exitCode: 1 }),
  ]
  const found = samples(lines)
  const at = found.indexOf("cni_recorder_on{} 1")
  expect(found.slice(at + 1).filter((line) => !line.includes("_bucket"))).toEqual([
    "cni_calls_total{} 11",
    "cni_operations{plugin=bridge,verb=ADD,result=success} 2",
    "cni_operations{plugin=bridge,verb=ADD,result=error} 1",
    "cni_operations{plugin=ptp,verb=DEL,result=error} 1",
    "cni_errors{plugin=bridge,verb=ADD,code=11} 1",
    "cni_errors{plugin=ptp,verb=DEL,code=0} 1",
    "cni_operation_duration_seconds_sum{plugin=bridge,verb=ADD} 20.0041",
    "cni_operation_duration_seconds_count{plugin=bridge,verb=ADD} 3",
    "cni_operation_duration_seconds_sum{plugin=ptp,verb=DEL} 0.001",
    "cni_operation_duration_seconds_count{plugin=ptp,verb=DEL} 1",
  ])
  const buckets = found.filter((line) => line.includes("_bucket{plugin=bridge"))
  expect(buckets.map((line) => line.replace(/.*le=/, ""))).toEqual([
    ...["0.002} 1", "0.005} 2", "0.01} 2", "0.02} 2", "0.05} 2", "0.1} 2", "0.2} 2", "0.5} 2"],
    ...["1} 2", "2} 2", "5} 2", "10} 2", "+Inf} 3"],
  ])
  expect(samples([])).toContain("cni_calls_total{} 0")
})
