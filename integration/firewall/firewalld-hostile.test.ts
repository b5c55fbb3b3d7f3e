import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { answerTo, startBus, welcome } from "../../pkg/dbus/bus.fixture.ts"
import { fail, outside, ruleBackends, scaleTimeout, succeed, waitFor } from "../lab/mod.ts"
import { expectAnswer, type FirewalledPod, FirewallLab } from "./firewall-lab.ts"
import { firewalldPid, runFirewalld, sourcesIn, startFirewalld } from "./firewalld-lab.ts"

const directory = mkdtempSync(join(tmpdir(), "cni-firewalld-"))
afterAll(() => rmSync(directory, { recursive: true }))

/** The time limit of a verb in milliseconds: its waits for firewalld and some time for its work. */
const LIMIT_MS = scaleTimeout(40_000)

async function labWithFirewalld(): Promise<FirewallLab> {
  const lab = await FirewallLab.create(ruleBackends[0])
  await startFirewalld(lab.host)
  return lab
}

const nothing = { "cni.dev/valid-attachments": [], prevResult: undefined }

/**
 * Runs each verb while firewalld fails. ADD and CHECK must report the failure; DEL and GC must succeed and log one
 * line.
 */
async function callAll({
  fresh,
  present,
  stale,
}: Record<"fresh" | "present" | "stale", FirewalledPod>): Promise<Record<"add" | "check" | "del" | "gc", string>> {
  const run = async (pod: FirewalledPod, verb: "ADD" | "CHECK" | "DEL" | "GC", keys: object, isWell: boolean) => {
    const output = await pod.firewall.run(verb, keys, { timeoutMs: LIMIT_MS })
    const { stdout, stderr, exitCode } = output
    expect({ verb, exitCode, stdout, stderr }).toMatchObject({ exitCode: isWell ? 0 : 1 })
    if (isWell) expect(stderr.trim().split("\n")).toHaveLength(1)
    return isWell ? stderr : stdout
  }
  const [add, check, del] = await Promise.all([
    run(fresh, "ADD", {}, false),
    run(stale, "CHECK", {}, false),
    run(present, "DEL", {}, true),
  ])
  return { add, check, del, gc: await run(stale, "GC", nothing, true) }
}

/** Creates the containers that the verbs need: some with an ADD, and one without. */
async function podsIn(lab: FirewallLab) {
  const [present, stale, fresh] = [await lab.addPod(), await lab.addPod({ name: "other" }), await lab.connectPod()]
  return { present, stale, fresh }
}

/** Checks that objects of the containers remain only in firewalld. */
async function expectNothing(lab: FirewallLab): Promise<void> {
  const rules = (await lab.nftables()).match(/^table .*$/gm)
  expect(rules?.filter((table) => !table.includes("firewalld"))).toEqual([])
}

test(
  "firewalld that hangs: every verb ends, DEL and GC with code 0 and one line; ADD leaves nothing [S48]",
  async () => {
    await using lab = await labWithFirewalld()
    const pods = await podsIn(lab)
    const pid = await firewalldPid(lab.host)
    process.kill(pid, "SIGSTOP")
    try {
      const said = await callAll(pods)
      for (const text of Object.values(said)) expect(text).toContain("no answer within 25000 ms")
      await expectNothing(lab)
    } finally {
      process.kill(pid, "SIGCONT")
    }
  },
  6 * LIMIT_MS,
)

test("firewalld that dies while it is asked: ADD fails and leaves nothing, DEL ends with code 0 [S49]", async () => {
  await using lab = await labWithFirewalld()
  const pod = await lab.addPod()
  const fresh = await lab.connectPod()
  const pid = await firewalldPid(lab.host)
  process.kill(pid, "SIGSTOP")
  const calls = Promise.all([fresh.firewall.run("ADD"), pod.firewall.run("DEL")])
  // Both have changed nf_tables and wait for firewalld.
  await waitFor(async () => {
    const rules = await lab.nftables()
    return rules.includes(fresh.ip) && !rules.includes(`${pod.ip} comment`)
  }, "both to ask firewalld")
  process.kill(pid, "SIGKILL")
  const [add, del] = await calls
  expect(add).toMatchObject({ exitCode: 1 })
  expect(del).toMatchObject({ exitCode: 0 })
  await expectNothing(lab)
  // firewalld replaces its rules in the kernel when it starts again.
  await runFirewalld(lab.host)
  await succeed(fresh.allow())
  await expectAnswer(fresh.namespace, outside.ip)
  expect(await sourcesIn(lab.host)).toEqual([`${fresh.ip}/32`, `${fresh.ip6}/128`])
})

/** Messages of the bus instead of firewalld's first answer, and the resulting error. */
const answers = [
  ["hangs up", "end", "it closed the connection"],
  ["answers with bytes of another kind", "HTTP/1.1 400 Bad Request\r\n\r\n", "not the beginning of a D-Bus message"],
  ["announces a message of 4 GiB", [0x6c, 2, 1, 1, 255, 255, 255, 255, 9, 0, 0, 0, 0, 0, 0, 0], "bytes"],
  [
    "answers with a message that ends too early",
    [...answerTo(3).slice(16, 28), 200, 0, 0, 0, ...Array(256).fill(7)],
    "",
  ],
] as const

for (const [what, answer, says] of answers)
  test(`a bus that ${what}: ADD and CHECK fail, DEL and GC go on [S50]`, async () => {
    await using lab = await labWithFirewalld()
    const { present, stale, fresh } = await podsIn(lab)
    const verbs = [
      [fresh, "ADD", {}, 1],
      [present, "CHECK", {}, 1],
      [present, "DEL", {}, 0],
      [stale, "GC", nothing, 0],
    ] as const
    for (const [pod, verb, keys, exitCode] of verbs) {
      await using bus = await startBus(directory, welcome, answerTo(1), answerTo(2), answer)
      const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${bus.path}` }
      const output = await pod.firewall.run(verb, keys, { env })
      expect({ verb, exitCode: output.exitCode }).toEqual({ verb, exitCode })
      expect(output.stdout + output.stderr).toContain(says)
    }
    await expectNothing(lab)
  })

test("a bus that says nothing is an error of ADD where firewalld's rules are in force", async () => {
  await using lab = await labWithFirewalld()
  const pod = await lab.connectPod()
  await using bus = await startBus(directory, "REJECTED\r\nERROR\r\n")
  const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${bus.path}` }
  expect((await fail(pod.firewall.run("ADD", {}, { env }))).msg).toBe("Cannot query the system bus for firewalld")
  await expectNothing(lab)
})

test("a source that another program moves to another zone in the meantime is that program's: CHECK says so, DEL leaves it there", async () => {
  await using lab = await labWithFirewalld()
  const pod = await lab.addPod()
  for (const source of [`${pod.ip}/32`, `${pod.ip6}/128`])
    await lab.host.exec("firewall-cmd", ["--zone=drop", `--change-source=${source}`])
  expect((await fail(pod.firewall.check(pod.result))).msg).toContain(`Cannot find the address ${pod.ip}/32`)
  const other = await lab.connectPod()
  expect((await succeed(other.allow())).stderr).toContain("ZONE_CONFLICT") // from the recorded sources of the first container
  expect(await sourcesIn(lab.host)).toEqual([`${other.ip}/32`, `${other.ip6}/128`])
  expect((await succeed(pod.firewall.run("DEL"))).stderr).toBe("")
  const { msg, details } = await fail(pod.allow())
  expect(`${msg}; ${details}`).toContain("ZONE_CONFLICT")
  expect(await sourcesIn(lab.host, "drop")).toEqual([`${pod.ip}/32`, `${pod.ip6}/128`])
  await other.remove()
  await expectNothing(lab)
})

test("names of zones that firewalld cannot have are refused, and nothing is left", async () => {
  await using lab = await labWithFirewalld()
  const pod = await lab.connectPod()
  for (const firewalldZone of ["no such", "a/b", "../trusted", "ü", "trusted\n", "x\0y", '"', "-", "a".repeat(300)]) {
    const { code, msg } = await fail(pod.allow({ firewalldZone }))
    expect({ firewalldZone, code: [7, 999].includes(code), msg }).toMatchObject({ code: true })
    expect(msg).not.toContain("\n")
    await expectNothing(lab)
    await succeed(pod.firewall.run("DEL", { firewalldZone }))
  }
  expect(await sourcesIn(lab.host)).toEqual([])
  await succeed(pod.allow())
})
