import { expect, test } from "bun:test"
import { chmod, mkdir, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { builtPlugins, type Change, chooseIptables, expectUnchanged, isAllocationTrace } from "../lab/mod.ts"
import { RunningListener } from "../reconcile/listener-lab.ts"
import { MigrateLab, network } from "./migrate-lab.ts"

test("the plan has each pod with what it has, and changes nothing", async () => {
  await using lab = await MigrateLab.create()
  const [pod] = await lab.add(1)
  const [before, files] = [await lab.snapshot(), await lab.files()]
  const plan = await lab.report(["--plan"])
  expect(plan).toMatchObject({ direction: "apply", done: false })
  expect(plan.files.filter(({ did }) => did === "created").map(({ name }) => name)).toEqual(["dummy", "flannel", "tap"])
  expect(plan.pods).toEqual([
    expect.objectContaining({
      network: "pods",
      ifName: "eth0",
      madeBy: "another suite",
      plugins: ["bridge", "host-local", "tuning", "portmap", "firewall"],
      bridge: "cni0",
      masquerade: "iptables",
      portsBy: "iptables",
      firewall: "iptables",
      ports: [{ hostPort: pod?.hostPort, containerPort: 80, protocol: "tcp" }],
      stores: ["/var/lib/cni/networks/pods"],
    }),
  ])
  expect(plan.pods[0]).not.toHaveProperty("closes")
  expectUnchanged(before, await lab.snapshot())
  expect(await lab.files()).toEqual(files)
})

test("pods with a plugin that the Go suite has not close the way back: they are named, and nothing is changed", async () => {
  await using lab = await MigrateLab.create()
  await rm(join(lab.node.binDir, "ptp")) // some packages lack plugins of the suite
  const ptp = { type: "ptp", ipMasq: true, ipam: { type: "host-local", ranges: [[{ subnet: "10.86.0.0/24" }]] } }
  await lab.node.writeNetwork("20-other.conflist", { cniVersion: "1.0.0", name: "other", plugins: [ptp] })
  await lab.report(["--apply"])
  const ours = [...(await lab.add(1)), ...(await lab.add(1, "other"))]
  const [before, files] = [await lab.snapshot(), await lab.files()]
  for (const flags of [["--plan", "--back"], ["--back"]]) {
    const { done, pods } = await lab.report(flags, 3)
    expect(done).toBeFalse()
    expect(pods.filter(({ closes }) => closes !== undefined)).toEqual([
      expect.objectContaining({ network: "other", closes: 'the other suite has no plugin "ptp"' }),
    ])
  }
  expectUnchanged(before, await lab.snapshot())
  expect(await lab.files()).toEqual(files)
  const [first, second] = ours
  if (!first || !second) throw new Error("no containers")
  await lab.remove([second], "other")
  await lab.report(["--back"], 3) // records of tuning stay until the pod is deleted
  await lab.remove([first])
  await lab.report(["--back"])
})

test("pods of a version that the Go suite does not speak close the way back; pods beside them do not", async () => {
  await using lab = await MigrateLab.create()
  const [bridge] = network.plugins
  const other = { ...bridge, bridge: "cni1", ipam: { type: "host-local", ranges: [[{ subnet: "10.86.0.0/24" }]] } }
  const newer = { cniVersion: "1.0.0", cniVersions: ["1.0.0", "1.1.0"], name: "newer", plugins: [other] }
  await lab.node.writeNetwork("20-newer.conflist", newer)
  await lab.report(["--apply"])
  const [pod] = await lab.add(1)
  const [late] = await lab.add(1, "newer")
  if (!pod || !late) throw new Error("no containers")
  const before = await lab.snapshot()
  for (const flags of [["--plan", "--back"], ["--back"]]) {
    const { done, pods } = await lab.report(flags, 3)
    expect(done).toBeFalse()
    expect(pods.flatMap(({ attachment, closes }) => (closes === undefined ? [] : [[attachment, closes]]))).toEqual([
      [
        expect.stringMatching(/^newer\//),
        'its runtime uses version 1.1.0, which the other suite\'s "bridge", "host-local" does not support',
      ],
    ])
  }
  expectUnchanged(before, await lab.snapshot())
  await lab.remove([late], "newer")
  await lab.migrate(["--back"])
  expect(await lab.files()).toEqual(await lab.goFiles())
  await lab.remove([pod]) // with the Go plugins
})

test("rules of a pod that no cache knows, and pods without iptables on the node, close the way back", async () => {
  await using lab = await MigrateLab.create()
  await lab.report(["--apply"])
  await lab.add(1)
  const elsewhere = lab.node.directory.join("no-cache")
  await mkdir(elsewhere)
  const unknown = await lab.report(["--plan", "--back", "--cache-dir", elsewhere], 3)
  expect(unknown.pods[0]?.closes).toContain("its configuration is not in --cache-dir")
  await chooseIptables(lab.node.host, "none")
  const without = await lab.report(["--back"], 3)
  expect(without.pods[0]?.closes).toContain('"iptables-restore" is missing')
  expect(await lab.files()).toContain(".cni-install")
})

test("rules of a container that is gone are removed by the way back, and the rest after its DEL", async () => {
  await using lab = await MigrateLab.create()
  await lab.remove(await lab.add(1))
  const before = await lab.snapshot()
  await lab.report(["--apply"])
  const [lost] = await lab.add(1)
  if (!lost) throw new Error("no container")
  await lab.node.losePod(lost.pod)
  const { remains } = await lab.report(["--back"], 3)
  expect(remains.map(({ what }) => what).filter((what) => what.startsWith("table"))).toEqual([
    "table inet cni_firewall",
  ])
  await lab.call("del", lost.pod, "{}")
  expect(await lab.report(["--back"])).toMatchObject({ remains: [], failed: [] })
  expect((await lab.node.host.exec("iptables-save")).stdout).not.toContain("backend nftables")
  // Chains that contain only jumps are deleted with the last rule. ADD of either suite creates them again.
  const isEmptyChain = ({ line }: Change) => /CNI-(FORWARD|ADMIN)/.test(line)
  expectUnchanged(before, await lab.snapshot(), (change) => isAllocationTrace(change) || isEmptyChain(change))
})

test("the way back is refused while a listener would restore rules, and where no other plugins are kept", async () => {
  await using lab = await MigrateLab.create()
  await lab.report(["--apply"])
  await lab.add(1)
  const before = await lab.snapshot()
  {
    await using _listener = await RunningListener.start(lab.node)
    const { exitCode, stdout } = await lab.migrate(["--back", "--json"])
    expect([exitCode, JSON.parse(stdout).msg]).toEqual([
      1,
      'Cannot go back to the Go plugins: the listener of "cni reconcile" would restore rules',
    ])
  }
  expectUnchanged(before, await lab.snapshot(), ({ line }) => /^\/run\/cni\/(deletions|reconcile)/.test(line))
  const own = lab.node.directory.join("own")
  await mkdir(own)
  for (const step of ["nothing was installed", "these plugins replaced none"]) {
    if (step !== "nothing was installed") await lab.node.cni(["install", "--bin-dir", own])
    else await lab.node.host.exec("cp", ["-r", `${builtPlugins}/.`, own])
    const { exitCode, stdout } = await lab.node.cni(["migrate", "--back", "--json", "--bin-dir", own])
    expect([step, exitCode, JSON.parse(stdout).code]).toEqual([step, 1, 5])
    await rm(own, { recursive: true })
    await mkdir(own)
  }
})

test("bad input is one clear error, and changes nothing", async () => {
  await using lab = await MigrateLab.create()
  await lab.add(1)
  const files = await lab.files()
  for (const [flags, message] of [
    [[], "give --plan, --apply or --back"],
    [["--apply", "--back"], "cannot use --apply with --back: give one of them"],
    [["--apply", "--force"], "unknown flag --force"],
  ] as const) {
    const { exitCode, stdout, stderr } = await lab.migrate(flags)
    expect([exitCode, stdout]).toEqual([2, ""])
    expect(stderr.toLowerCase()).toContain(message.slice(0, 20).toLowerCase())
  }
  const broken = lab.node.host.file("/var/lib/cni/results/pods-torn-eth0")
  await writeFile(broken, "")
  for (const way of ["--plan", "--apply", "--back"]) {
    const { exitCode, stdout } = await lab.migrate([way, "--json"])
    expect([way, exitCode, JSON.parse(stdout)]).toEqual([
      way,
      1,
      expect.objectContaining({ code: 5, msg: expect.stringContaining("pods-torn-eth0") }),
    ])
  }
  await rm(broken)
  const { binDir } = lab.node
  await rm(join(binDir, "bridge"))
  await mkdir(join(binDir, "bridge"))
  const { exitCode, stdout } = await lab.migrate(["--apply", "--json"])
  expect([exitCode, JSON.parse(stdout).msg]).toEqual([1, expect.stringContaining('"bridge" in it is a directory')])
  await rm(join(binDir, "bridge"), { recursive: true })
  await writeFile(join(binDir, "bridge"), "")
  await chmod(join(binDir, "bridge"), 0o755)
  expect((await lab.files()).filter((name) => !files.includes(name))).toEqual([])
})
