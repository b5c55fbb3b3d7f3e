import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { NodeLab } from "./node-lab.ts"

test("neighbors that a container sets by hand fill no table, and doctor says so [S308]", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  const limit = Number(readFileSync("/proc/sys/net/ipv4/neigh/default/gc_thresh3", "utf8")) // only the initial network namespace has this file
  const many = Array.from({ length: limit }, (_, at) => `10.${96 + (at >> 16)}.${(at >> 8) & 255}.${at & 255}`)
  const lines = many.map((ip) => `neighbour add ${ip} lladdr 02:00:00:00:00:99 nud permanent dev eth0\n`)
  await pod.exec("ip", ["-batch", "-"], { input: lines.join("") })
  const { stdout } = await lab.cni(["doctor", "--json"])
  const { findings } = JSON.parse(stdout)
  expect(
    findings.filter(
      ({ rule, what }: { rule: string; what: string }) => rule === "neighbours-full" && what.includes("IPv4"),
    ),
  ).toEqual([])
  expect((await pod.tryExec("ping", ["-c1", "-W1", "10.85.0.1"])).exitCode).toBe(0)
})
