import { expect, test } from "bun:test"
import { Lab } from "../../pkg/libcni/testing/lab.ts"
import { recordingTerminal } from "../testing/terminal.ts"
import { cni } from "./main.ts"

const result = {
  cniVersion: "1.1.0",
  interfaces: [{ name: "veth7" }, { name: "eth0", mac: "0a:00:00:00:00:08", sandbox: "/run/netns/x" }],
  ips: [{ address: "192.0.2.9/24", gateway: "192.0.2.1", interface: 1 }],
  routes: [{ dst: "0.0.0.0/0", gw: "192.0.2.1" }],
}

function labOfOne(): Lab {
  const lab = new Lab()
  lab.plugin("one", { ADD: { stdout: JSON.stringify(result) } })
  lab.conf("net.conflist", { cniVersion: "1.1.0", name: "net", plugins: [{ type: "one" }] })
  return lab
}

async function run(lab: Lab, args: string[], { env = {}, interactive = false } = {}) {
  const terminal = recordingTerminal({ PATH: process.env.PATH, ...env }, interactive)
  const places = ["--conf-dir", lab.confDir, "--bin-dir", lab.binDir, "--cache-dir", lab.cacheDir]
  const code = await cni([...args, ...places], terminal)
  return { code, out: terminal.out, err: terminal.err }
}

test("add prints JSON, or a table for a human, or JSON for a human who wants it", async () => {
  using lab = labOfOne()
  const piped = await run(lab, ["add", "net", "/run/netns/x"])
  expect(JSON.parse(piped.out)).toEqual(result)
  const seen = await run(lab, ["add", "net", "/run/netns/y"], { interactive: true })
  expect(seen.out).toBe(
    [
      "INTERFACE  WHERE         MAC                ADDRESS       GATEWAY",
      "veth7      host          -                  -             -",
      "eth0       /run/netns/x  0a:00:00:00:00:08  192.0.2.9/24  192.0.2.1",
      "",
      "ROUTE      VIA",
      "0.0.0.0/0  192.0.2.1",
      "",
    ].join("\n"),
  )
  const wanted = await run(lab, ["add", "net", "/run/netns/z", "--json"], { interactive: true })
  expect(JSON.parse(wanted.out)).toEqual(result)
})

test("del uses the arguments of the add again", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/run/netns/x"], { env: { CNI_ARGS: "a=b" } })
  await run(lab, ["del", "net", "/run/netns/x"])
  expect(lab.calls.map((call) => `${call.verb} ${call.args}`)).toEqual(["ADD a=b", "DEL a=b"])
})

test("a failed add is undone, and the error says why; with --json it is the protocol's error object", async () => {
  using lab = labOfOne()
  lab.plugin("one", { ADD: { stdout: '{"code":100,"msg":"no","details":"really"}', code: 1 } })
  const said = await run(lab, ["add", "net", "/run/netns/x"])
  expect(said).toEqual({ code: 1, out: "", err: 'cni add: plugin type="one" failed (add): no\n  really\n' })
  expect(lab.sequence).toEqual(["ADD one", "DEL one"])
  const json = await run(lab, ["add", "net", "/run/netns/x", "--json"])
  expect(JSON.parse(json.out)).toMatchObject({ code: 100, details: "really" })
})

test("gc without knowing what to keep deletes nothing", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/run/netns/x"])
  expect(await run(lab, ["gc", "net"])).toMatchObject({ code: 2, err: expect.stringContaining("--keep ID/IFNAME") })
  expect(await run(lab, ["gc", "net", "--keep", "x"])).toMatchObject({ code: 2 })
  expect(lab.sequence).toEqual(["ADD one"])
})

test("gc deletes what is not on the list", async () => {
  using lab = labOfOne()
  for (const id of ["c1", "c2"]) await run(lab, ["add", "net", "/run/netns/x", "--container-id", id])
  expect(await run(lab, ["gc", "net", "--keep", "c1/eth0"])).toMatchObject({ code: 0, out: "" })
  expect(lab.calls.slice(2).map((call) => `${call.verb} ${call.id}`)).toEqual(["DEL c2", "GC "])
})

test("gc --auto keeps the attachments whose namespace exists, and --dry-run only tells", async () => {
  using lab = labOfOne()
  await run(lab, ["add", "net", "/proc/self/ns/net", "--container-id", "alive"])
  await run(lab, ["add", "net", "/run/netns/gone-for-good", "--container-id", "dead"])
  const dry = await run(lab, ["gc", "net", "--auto", "--dry-run"])
  expect(dry.out).toMatch(/keep +alive\/eth0/)
  expect(dry.out).toMatch(/would delete +dead\/eth0/)
  expect(lab.sequence).toEqual(["ADD one", "ADD one"])
  await run(lab, ["gc", "net", "--auto"])
  expect(lab.calls.slice(2).map((call) => `${call.verb} ${call.id}`)).toEqual(["DEL dead", "GC "])
  expect(lab.calls.at(-1)?.stdin["cni.dev/valid-attachments"]).toEqual([{ containerID: "alive", ifname: "eth0" }])
})

test("a command line that cannot be understood: exit code 2, and where the help is", async () => {
  using lab = labOfOne()
  for (const args of [["add", "net"], ["add", "net", "x", "y"], ["status", "net", "--what"], ["frob"]]) {
    const { code, out, err } = await run(lab, args)
    expect([code, out]).toEqual([2, ""])
    expect(err).toContain("--help")
  }
})

test("every command has a help with a usage line, asked for in either way", async () => {
  for (const command of ["add", "check", "del", "status", "gc", "install", "version"]) {
    const [flag, word] = [recordingTerminal({}), recordingTerminal({})]
    expect([await cni([command, "--help"], flag), await cni(["help", command], word)]).toEqual([0, 0])
    expect(flag.out).toContain(`Usage:\n  cni ${command}`)
    expect(word.out).toBe(flag.out)
  }
})

test("broken files beside the network are a warning", async () => {
  using lab = labOfOne()
  lab.conf("00-broken.conflist", "{")
  expect(await run(lab, ["status", "net"])).toMatchObject({
    code: 0,
    err: expect.stringContaining("Skipped 00-broken"),
  })
})
