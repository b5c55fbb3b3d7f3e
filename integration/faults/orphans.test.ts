import { expect, test } from "bun:test"
import { chmod, readFile, symlink } from "node:fs/promises"
import { Attachment, bridgeNetwork, builtPlugins, HostNamespace, TemporaryDirectory, waitFor } from "../lab/mod.ts"

test("a program that a plugin waits for ends when the plugin is killed: it changes nothing behind the back of the DEL that follows", async () => {
  await using host = await HostNamespace.create()
  await using directory = await TemporaryDirectory.create("cni-orphans")
  const [pidFile, ipam] = [directory.join("pid"), directory.join("never-done")]
  await Bun.write(
    ipam,
    `#!/bin/sh\necho $$ $PPID >${pidFile}.new && mv ${pidFile}.new ${pidFile}\nexec sleep infinity\n`,
  )
  await chmod(ipam, 0o755)
  await symlink(`${builtPlugins}/bridge`, directory.join("bridge"))
  const bin = directory.join("bridge")
  const config = bridgeNetwork({ ipam: { type: "never-done" } })
  const attachment = new Attachment(host, await host.addContainer(), config, { bin })
  const call = attachment.run("ADD")
  const pids = await waitFor(() => readFile(pidFile, "utf8"), "the IPAM plugin to run")
  const [child, parent] = pids.trim().split(" ").map(Number) as [number, number]
  process.kill(parent, "SIGKILL")
  expect((await call).exitCode).toBe(128 + 9)
  const hasEnded = () =>
    readFile(`/proc/${child}/stat`, "utf8").then(
      (stat) => /\) [ZX] /.test(stat),
      () => true,
    )
  await waitFor(hasEnded, "the IPAM plugin to end")
})
