import { expect } from "bun:test"
import { chmod, readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import {
  Attachment,
  builtPlugins,
  expectUnchanged,
  fail,
  HostNamespace,
  interfacePlugin,
  isAllocationTrace,
  linkNames,
  mustRun,
  succeed,
  TemporaryDirectory,
  takeSnapshot,
  testWith,
  waitFor,
} from "../lab/mod.ts"

const { network } = interfacePlugin("tap")

// A kernel without a policy knows only these contexts, and allows everything:
// security/selinux/include/initial_sid_to_string.h
const [own, asked] = ["kernel", "unlabeled"]

/** Returns the contexts of the processes that are creating a tap now. */
async function contextsOfMakers(): Promise<string[]> {
  const found: string[] = []
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const commandLine = await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "")
    if (!commandLine.startsWith("tap\0create-device\0")) continue
    found.push((await readFile(`/proc/${pid}/attr/current`, "latin1")).replace("\0", ""))
  }
  return found
}

testWith(
  ["selinux", "tap"],
  "the tap is made by a process of the SELinux context that is asked for, and by no other",
  async () => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    const under = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ioctl", "-e", "inject=ioctl:delay_enter=2s"]
    const attachment = new Attachment(host, pod, network({ selinuxContext: asked, owner: 4711 }), { under })
    let contexts: string[] = []
    const adding = attachment.add()
    await waitFor(async () => {
      contexts = await contextsOfMakers()
      return contexts.length > 0
    }, "a process that makes the tap")
    expect(contexts).toEqual([asked])
    await succeed(attachment.check(await adding))
  },
)

testWith(
  ["selinux", "tap"],
  "what is executed after that has our context again, and a failed ADD leaves nothing",
  async () => {
    await using host = await HostNamespace.create()
    await using directory = await TemporaryDirectory.create()
    const log = directory.join("log")
    const answer = JSON.stringify({ cniVersion: "1.1.0", ips: [{ address: "ff02::5/64" }] })
    const script = `#!/bin/sh\necho "$CNI_COMMAND $(tr -d '\\0' </proc/self/attr/current)" >>${log}\necho '${answer}'\n`
    await writeFile(directory.join("recorder"), script)
    await chmod(directory.join("recorder"), 0o755)
    const pod = await host.addContainer()
    const [outside, inside] = [await takeSnapshot(host), await takeSnapshot(pod)]
    const keys = { selinuxContext: asked, ipam: { type: "recorder" } }
    const attachment = new Attachment(host, pod, network(keys), { path: `${directory.path}:${builtPlugins}` })
    expect((await fail(attachment.run("ADD"))).msg).toContain("Cannot add address ff02::5/64")
    expect(await readFile(log, "utf8")).toBe(`ADD ${own}\nDEL ${own}\n`)
    expectUnchanged(outside, await takeSnapshot(host), isAllocationTrace)
    expectUnchanged(inside, await takeSnapshot(pod))
  },
)

/** Loads a policy into the kernel, where it stays until shutdown, and enforces the policy until disposal. */
async function enforcePolicy(): Promise<AsyncDisposable> {
  await using directory = await TemporaryDirectory.create()
  const policy = directory.join("policy")
  const source = join(import.meta.dir, "policy.cil")
  await mustRun(["secilc", "-M", "false", "-c", "33", "-o", policy, "-f", "/dev/null", source])
  await mustRun(["mount", "-t", "selinuxfs", "selinuxfs", "/sys/fs/selinux"])
  await mustRun(["dd", `if=${policy}`, "of=/sys/fs/selinux/load", "bs=1M"]) // the kernel requires a single write
  const enforce = (value: "0" | "1") => writeFile("/sys/fs/selinux/enforce", value)
  await enforce("1")
  return { [Symbol.asyncDispose]: () => enforce("0") }
}

// The last test of this file, because the kernel keeps the policy. It runs only in the virtual machine that has the
// spare card.
testWith(
  ["selinux", "tap", "spare_nic"],
  "where a policy lets one context alone make taps, ADD in that context succeeds, and all others are told",
  async () => {
    await using host = await HostNamespace.create()
    const pod = await host.addContainer()
    await using _ = await enforcePolicy()
    const contexts: [context: string | undefined, code: number, says: RegExp][] = [
      [undefined, 999, /Cannot create tap "eth0" in .*EACCES/],
      [
        "system_u:system_r:stranger",
        999,
        /Cannot create tap "eth0" in .*; Cannot create a tap as "system_u:system_r:stranger"; .*EACCES/,
      ],
      ["system_u:system_r:nobody", 7, /SELinux is disabled, or its policy does not define the context/],
    ]
    for (const [selinuxContext, code, says] of contexts) {
      const error = await fail(new Attachment(host, pod, network({ selinuxContext })).run("ADD"))
      expect([error.code, `${error.msg}; ${error.details}`]).toEqual([code, expect.stringMatching(says)])
      expect(await linkNames(pod)).toEqual(["lo"])
    }
    const attachment = new Attachment(host, pod, network({ selinuxContext: "system_u:system_r:machine", owner: 4711 }))
    await succeed(attachment.check(await attachment.add()))
    await attachment.del()
    expect(await linkNames(pod)).toEqual(["lo"])
  },
)
