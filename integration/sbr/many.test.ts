import { expect, test } from "bun:test"
import {
  type ContainerNamespace,
  expectUnchanged,
  runTraced,
  scaleTimeout,
  startDaemon,
  takeSnapshot,
} from "../lab/mod.ts"
import { routesOf, rulesOf, twoNetworks } from "./sbr-lab.ts"

/**
 * The limit for the CPU time of each verb in milliseconds. The test does not limit the wall time, which other processes
 * affect.
 */
const BOUND_MS = 2000

const low = (at: number) => `${at >> 8}.${at & 255}`
const each = <T>(count: number, line: (at: number) => T) => Array.from({ length: count }, (_, at) => line(at))

function batch(pod: ContainerNamespace, lines: readonly string[]) {
  return pod.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
}

test("rules by the interface's addresses cost DEL no list of routes each: those to its tables go, those to a shared one stay", async () => {
  const { host, pod, sbr } = await twoNetworks()
  await using _ = host
  await sbr.add()
  await batch(pod, [
    ...each(600, (at) => `address add 198.18.${low(at)}/32 dev net1`),
    ...each(600, (at) => `rule add from 198.18.${low(at)} lookup ${5000 + (at & 1)}`),
    ...each(6000, (at) => `route add 172.17.${low(at)} dev ${at % 4 === 3 ? "eth0" : "net1"} table ${5000 + (at & 1)}`),
  ])
  const { exitCode, cpuMs, stderr } = await sbr.run("DEL")
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
  expect(cpuMs).toBeLessThan(scaleTimeout(BOUND_MS))
  const left = await rulesOf(pod)
  expect(left.map((rule) => rule.split(" ")[1])).toEqual(Array(300).fill("5001"))
})

test("thousands of rules and addresses are compared in one go: rules of no interface go, those of another stay", async () => {
  const { host, pod, sbr } = await twoNetworks()
  await using _ = host
  await sbr.add()
  await batch(pod, [
    ...each(3000, (at) => `address add 198.18.${low(at)}/32 dev eth0`),
    ...each(3000, (at) => `rule add from 198.18.${low(at)} lookup 99 proto 67`),
    ...each(3000, (at) => `rule add from 198.19.${low(at)} lookup 99 proto 67`),
  ])
  const { exitCode, cpuMs, stderr } = await sbr.run("DEL")
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
  expect(cpuMs).toBeLessThan(scaleTimeout(BOUND_MS))
  const left = await rulesOf(pod)
  expect(left).toHaveLength(3000)
  expect(left.every((rule) => rule.startsWith("198.18."))).toBe(true)
})

test("thousands of routes of the interface are moved, a hundred with each call to the kernel, and come back", async () => {
  const { host, pod, prevResult, sbr } = await twoNetworks()
  await using _ = host
  await batch(
    pod,
    each(3000, (at) => `route add 172.17.${low(at)} dev net1`),
  )
  const before = await takeSnapshot(pod)
  for (const verb of ["ADD", "CHECK", "DEL"] as const) {
    const { output, text } = await runTraced(sbr, verb, ["trace=sendto,sendmsg"], { prevResult })
    expect({ verb, ...output }).toMatchObject({ verb, exitCode: 0, stderr: "" })
    expect(text.split("\n").length).toBeLessThan(200)
    if (verb === "ADD") expect(await routesOf(pod, "-4", "100")).toHaveLength(3002)
  }
  expectUnchanged(before, await takeSnapshot(pod))
})

test("thousands of addresses cost ADD the same each: a table is looked for from the last one on", async () => {
  const { host, pod, prevResult, sbr } = await twoNetworks()
  await using _ = host
  const own = prevResult.interfaces.findIndex(({ name }) => name === "net1")
  const ips = each(2000, (at) => ({ address: `198.18.${low(at)}/32`, interface: own }))
  await batch(
    pod,
    ips.map(({ address }) => `address add ${address} dev net1`),
  )
  const more = { ...prevResult, ips: [...prevResult.ips, ...ips] }
  const { exitCode, cpuMs, stderr } = await sbr.run("ADD", { prevResult: more })
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })
  expect(cpuMs).toBeLessThan(scaleTimeout(BOUND_MS))
  const rules = await rulesOf(pod)
  expect(rules).toHaveLength(2002)
  expect(new Set(rules.map((rule) => rule.split(" ").at(-1))).size).toBe(2002) // a different table for each address
})

test("thousands of routes are moved by a call that another program leaves a tenth of a processor, however long that takes", async () => {
  const { host, pod, prevResult, sbr } = await twoNetworks()
  await using _ = host
  await batch(
    pod,
    each(6000, (at) => `route add 172.17.${low(at)} dev net1`),
  )
  const before = await takeSnapshot(pod)
  const onOne = ["taskset", "-c", "0"]
  await startDaemon(host.commandLine([...onOne, "nice", "-n", "-10", "sh", "-c", "while :; do :; done"]))
  for (const verb of ["ADD", "DEL"] as const) {
    const { exitCode, stderr } = await sbr.run(verb, { prevResult }, { under: onOne })
    expect({ verb, exitCode, stderr }).toEqual({ verb, exitCode: 0, stderr: "" })
    if (verb === "ADD") expect(await routesOf(pod, "-4", "100")).toHaveLength(6002)
  }
  expectUnchanged(before, await takeSnapshot(pod))
})
