/**
 * The tuning plugin on a real interface and its sysctls, called in this process, judged with `ip` and /proc/sys.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { tuning } from "../../../meta/tuning/main.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { type Answer, callPlugin, type ProcessCall, refuseAnswer } from "../in-process.ts"

let host: HostNamespace
let pod: ContainerNamespace
const dataDir = mkdtempSync(join(tmpdir(), "tuning-"))
beforeAll(async () => {
  chmodSync(dataDir, 0o700)
  host = await HostNamespace.create()
  pod = await host.addContainer()
})
afterAll(async () => {
  rmSync(dataDir, { recursive: true })
  await host[Symbol.asyncDispose]()
})

/** A pair with its host's end a port of "br0". */
beforeEach(async () => {
  const lines = [
    "link add br0 type bridge",
    `link add veth1 master br0 type veth peer name eth0 address 02:00:00:00:00:01 netns ${pod.name}`,
  ]
  await host.exec("ip", ["-batch", "-"], { input: `${lines.join("\n")}\n` })
})
afterEach(async () => {
  await host.exec("ip", ["-batch", "-"], { input: "link del veth1\nlink del br0\n" })
  expect(readdirSync(dataDir)).toEqual([])
})

function call(verb: ProcessCall["verb"], keys: object, more: Partial<ProcessCall> = {}): Answer {
  const interfaces = [
    { name: "br0" },
    { name: "veth1", mtu: 1500 },
    { name: "eth0", mac: "02:00:00:00:00:01", sandbox: pod.path },
  ]
  const prevResult = { cniVersion: "1.1.0", interfaces, ips: [] }
  const config = { cniVersion: "1.1.0", name: "lab", type: "tuning", dataDir, prevResult, ...keys }
  return callPlugin(host, tuning, { verb, config, pod, ...more })
}

function done(...of: Parameters<typeof call>): Answer["json"] {
  const answer = call(...of)
  expect(answer).toMatchObject({ exitCode: 0, log: [] })
  return answer.json
}

interface Shown {
  mtu: number
  address: string
  txqlen: number
  flags: string[]
  promiscuity: number
}

/** The container's interface and its host's end, in words; and some sysctls of the container's. */
async function shown(): Promise<string[]> {
  const linkOf = async (where: HostNamespace | ContainerNamespace, name: string) =>
    (await where.json<Shown[]>("ip", ["-d", "-j", "link", "show", name]))[0] as Shown
  const [link, port] = [await linkOf(pod, "eth0"), await linkOf(host, "veth1")]
  const sysctls = await pod.exec("sysctl", [
    "-n",
    "net.core.somaxconn",
    "net.ipv4.conf.eth0.rp_filter",
    "net.ipv4.ip_local_port_range",
  ])
  return [
    `mtu ${link.mtu} ${link.address} txqlen ${link.txqlen} promiscuity ${link.promiscuity} ${link.flags.includes("ALLMULTI") ? "allmulti" : ""}`,
    `port ${port.mtu}`,
    ...sysctls.stdout.trim().split("\n"),
  ]
}

const all = {
  mtu: 1600,
  mac: "02:00:00:00:00:99",
  promisc: true,
  allmulti: true,
  txQLen: 7,
  sysctl: {
    "net.core.somaxconn": "777",
    "net/ipv4/conf/IFNAME/rp_filter": "2",
    "net.ipv4.ip_local_port_range": "2000 3000",
  },
}

test("everything is set, said in the result, checked, and set back", async () => {
  const before = await shown()
  const result = done("ADD", all)
  expect(await shown()).toEqual([
    "mtu 1600 02:00:00:00:00:99 txqlen 7 promiscuity 1 allmulti",
    "port 1600",
    ...["777", "2", "2000\t3000"],
  ])
  expect(result.interfaces).toEqual([
    { name: "br0", mtu: 1600 },
    { name: "veth1", mtu: 1600 },
    { name: "eth0", mac: "02:00:00:00:00:99", mtu: 1600, sandbox: pod.path },
  ])
  expect(readdirSync(dataDir)).toEqual(["lab:c1:eth0.json"])
  done("CHECK", all)
  done("ADD", all)
  done("DEL", { dataDir })
  expect(await shown()).toEqual(before)
  done("DEL", { dataDir })
})

test("an ADD whose answer is not read leaves what there was, and the backup of an earlier one", async () => {
  const before = await shown()
  expect(call("ADD", all, { write: refuseAnswer })).toMatchObject({ exitCode: 1, log: [] })
  expect(await shown()).toEqual(before)
  expect(readdirSync(dataDir)).toEqual([])
  done("ADD", { mtu: 1550 })
  const tuned = await shown()
  expect(call("ADD", all, { write: refuseAnswer })).toMatchObject({ exitCode: 1, log: [] })
  expect(await shown()).toEqual(tuned)
  done("DEL", {})
  expect(await shown()).toEqual(before)
})

test("a port of a bridge does not get a smaller MTU, which would become the bridge's", async () => {
  const result = done("ADD", { mtu: 1400 })
  expect((await shown()).slice(0, 2)).toEqual([expect.stringMatching(/^mtu 1400 /), "port 1500"])
  expect(result.interfaces[1]).toEqual({ name: "veth1", mtu: 1500 })
  done("CHECK", { mtu: 1400 })
  done("DEL", {})
  await host.exec("ip", ["link", "set", "veth1", "nomaster"])
  done("ADD", { mtu: 1400 })
  expect((await shown())[1]).toBe("port 1400")
  await host.exec("ip", ["link", "set", "veth1", "mtu", "1450"])
  expect(call("CHECK", { mtu: 1400 }).json.msg).toBe(
    'Check of "mtu" of "veth1" on the host failed: expected 1400, found 1450',
  )
  // What ADD has not set is not set back: it may be the end of another interface, which the container has given this
  // name.
  done("DEL", {})
  expect((await shown())[1]).toBe("port 1450")
  await host.exec("ip", ["link", "set", "veth1", "mtu", "1500"])
  done("ADD", { mtu: 1400 })
  done("DEL", {})
  expect((await shown())[1]).toBe("port 1500")
})

describe("CHECK names what is another", () => {
  test.each([
    ["ip link set eth0 mtu 1599", 'Check of "mtu" of "eth0" failed: expected 1600, found 1599'],
    [
      "ip link set eth0 address 02:00:00:00:00:55",
      'Check of "mac" of "eth0" failed: expected 02:00:00:00:00:99, found 02:00:00:00:00:55',
    ],
    ["ip link set eth0 txqueuelen 8", 'Check of "txQLen" of "eth0" failed: expected 7, found 8'],
    ["ip link set eth0 allmulticast off", 'Check of "allmulti" of "eth0" failed: expected true, found false'],
    ["ip link set eth0 promisc off", 'Check of "promisc" of "eth0" failed: expected true, found false'],
    ["sysctl -qw net.core.somaxconn=778", 'Check of sysctl "net.core.somaxconn" failed: expected "777", found "778"'],
  ])("after `%s`", async (damage, msg) => {
    done("ADD", all)
    await pod.exec("sh", ["-c", damage])
    expect(call("CHECK", all).json).toMatchObject({ code: 999, msg })
    done("DEL", {})
  })
})

test("without settings nothing is looked for; without prevResult, or an interface, ADD says so", async () => {
  done("ADD", {})
  done("CHECK", {})
  expect(call("ADD", { prevResult: undefined }).json).toMatchObject({
    code: 7,
    msg: 'Required prevResult missing: there is no "eth0" to tune',
    details: "tuning changes the interface of an earlier plugin of the chain; it cannot be the first",
  })
  expect(call("ADD", { mtu: 1400 }, { ifName: "eth9" }).exitCode).toBe(1)
})

test("GC forgets what is not valid, STATUS is well", async () => {
  const run = (verb: "GC" | "STATUS", keys: object) =>
    callPlugin(host, tuning, { verb, config: { cniVersion: "1.1.0", name: "lab", type: "tuning", dataDir, ...keys } })
      .exitCode
  done("ADD", { mtu: 1600 })
  expect(run("GC", { "cni.dev/valid-attachments": [{ containerID: "c1", ifname: "eth0" }] })).toBe(0)
  expect(readdirSync(dataDir)).toHaveLength(1)
  expect(run("GC", { "cni.dev/valid-attachments": [] })).toBe(0)
  expect(readdirSync(dataDir)).toEqual([])
  expect(run("STATUS", {})).toBe(0)
  done("DEL", {}, { pod: undefined })
})
