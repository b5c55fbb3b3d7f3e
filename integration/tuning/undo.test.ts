import { expect, test } from "bun:test"
import { expectUnchanged, fail, type Output, runTraced, takeSnapshot, waitFor } from "../lab/mod.ts"
import { everything, TuningChain, writeAllowList } from "./chain.ts"

/** A breakage for each step of ADD. Its preparations run before the first snapshot. */
const breakages: {
  step: string
  setUp?: (chain: TuningChain) => Promise<unknown>
  keys: Record<string, unknown>
  code: number
  says: string
}[] = [
  { step: "the configuration is wrong", keys: { mtu: "big" }, code: 7, says: 'Cannot use "mtu"' },
  {
    step: "a sysctl is not the network's",
    keys: { sysctl: { "net.core.somaxconn": "5", "kernel.hostname": "x" } },
    code: 7,
    says: 'invalid net sysctl key "kernel.hostname"',
  },
  {
    step: "one sysctl stands there in two spellings",
    keys: { sysctl: { "net.core.somaxconn": "5", "net/core/somaxconn": "6" } },
    code: 7,
    says: "duplicated sysctl keys are not allowed",
  },
  {
    step: "the allow list does not have a sysctl",
    keys: everything,
    setUp: ({ host }) => writeAllowList(host, ["^net.ipv4", "^net/ipv6"]),
    code: 7,
    says: "Sysctl net/core/somaxconn is not allowed. Only the following sysctls are allowed: [^net.ipv4 ^net/ipv6]",
  },
  {
    step: "the allow list is empty",
    keys: { args: { cni: { sysctl: { "net.core.somaxconn": "5" } } } },
    setUp: ({ host }) => writeAllowList(host, []),
    code: 7,
    says: "is not allowed",
  },
  {
    step: "a sysctl has a name that a pattern of the allow list could match in very many ways",
    keys: { sysctl: { [`net.${"a".repeat(60)}.`]: "1" } },
    setUp: ({ host }) => writeAllowList(host, [String.raw`^net\.([a-z]+[0-9]*)+$`]),
    code: 7,
    says: "is not allowed",
  },
  {
    step: "the allow list has a line that is not a pattern",
    keys: everything,
    setUp: ({ host }) => writeAllowList(host, ["net", "("]),
    code: 999,
    says: 'Cannot use line 2 of the allow list "/etc/cni/tuning/allowlist.conf": "(" is not a regular expression',
  },
  {
    step: "the namespace does not exist",
    keys: everything,
    setUp: removeNamespace,
    code: 4,
    says: "does not exist",
  },
  {
    step: "the interface does not exist",
    keys: { ...everything, sysctl: {} },
    setUp: ({ pod }) => pod.exec("ip", ["link", "del", "eth0"]),
    code: 999,
    says: 'Cannot tune interface "eth0"',
  },
  {
    step: "the backup cannot be written",
    keys: { ...everything, dataDir: "/run/cni/file" },
    setUp: ({ host }) => host.exec("touch", ["/run/cni/file"]),
    code: 5,
    says: 'Cannot write the backup "/run/cni/file/',
  },
  {
    step: "the kernel does not have a sysctl",
    keys: { ...everything, sysctl: { ...everything.sysctl, "net.ipv4.no_such_thing": "5" } },
    code: 999,
    says: 'Cannot find sysctl "net.ipv4.no_such_thing" in the container: ENOENT',
  },
  {
    step: "the kernel refuses the value of a sysctl",
    keys: { ...everything, sysctl: { ...everything.sysctl, "net.ipv4.ip_default_ttl": "70000" } },
    code: 999,
    says: 'Cannot set sysctl "net.ipv4.ip_default_ttl" to "70000" in the container: EINVAL',
  },
  {
    step: "a sysctl can only be read in a container",
    keys: { ...everything, sysctl: { ...everything.sysctl, "net.core.rmem_max": "70000" } },
    code: 999,
    says: 'Cannot set sysctl "net.core.rmem_max" to "70000" in the container: EACCES',
  },
  {
    step: "the MAC is a group's",
    keys: { ...everything, mac: "01:00:5e:00:00:01" },
    code: 7,
    says: 'Cannot use "mac"',
  },
  {
    step: "the MAC is that of another kind of link",
    keys: { ...everything, mac: "0a:00:00:00:00:00:00:01" },
    code: 7,
    says: 'Cannot set "mac" of "eth0" to 0a:00:00:00:00:00:00:01: expected an address as long as',
  },
  {
    step: "the kernel refuses the MTU",
    keys: { ...everything, mtu: 70000 },
    code: 999,
    says: 'Cannot set "mtu" of "eth0" to 70000: EINVAL',
  },
  {
    step: "the result does not fit the version",
    keys: { ...everything, cniVersion: "0.2.0", prevResult: { cniVersion: "0.2.0", dns: {} } },
    code: 1,
    says: "cannot convert: no valid IP addresses",
  },
]

/** Deletes the namespace, and waits until the veth pair is gone, so that both snapshots agree. */
async function removeNamespace({ host, pod }: TuningChain): Promise<void> {
  await host.removeContainer(pod)
  const isGone = async () => !(await host.exec("ip", ["-o", "link", "show", "type", "veth"])).stdout.includes("veth")
  await waitFor(isGone, "the host's end of the pair to go")
}

test.each(breakages)("when $step, ADD says so and everything is as before [S17]", async (breakage) => {
  const { setUp, keys, code, says } = breakage
  await using chain = await TuningChain.create(keys)
  await chain.host.exec("mkdir", ["/run/cni/tuning"])
  await setUp?.(chain)
  const before = await takeSnapshot(chain.host)
  const inside = await takeSnapshot(chain.pod).catch(() => undefined)
  const error = await fail(chain.tuning.run("ADD"))
  expect(`${error.msg}; ${error.details ?? ""}`).toContain(says)
  expect(error.code).toBe(code)
  expectUnchanged(before, await takeSnapshot(chain.host))
  if (inside) expectUnchanged(inside, await takeSnapshot(chain.pod))
})

test("a key that stands there twice is refused by ADD and CHECK, not by DEL", async () => {
  await using chain = await TuningChain.create()
  const text = JSON.stringify({ ...chain.tuning.config, sysctl: { "net.core.somaxconn": "5" } })
  const config = text.replace('"sysctl":{', '"sysctl":{"net.core.somaxconn":"6",')
  for (const verb of ["ADD", "CHECK"] as const) {
    const error = await fail(chain.tuning.run(verb, {}, { config }))
    expect(error).toMatchObject({ code: 7, msg: expect.stringContaining("duplicated sysctl keys are not allowed") })
  }
  await chain.tuning.run("DEL", {}, { config }).then(({ exitCode }) => expect(exitCode).toBe(0))
})

test("when the second of two tuning plugins fails, what the first one set stays, and its backup with it", async () => {
  await using chain = await TuningChain.create(everything)
  const untouched = await chain.link()
  const prevResult = await chain.tuning.add()
  const [before, inside] = [await takeSnapshot(chain.host), await takeSnapshot(chain.pod)]
  const second = { mac: "0a:00:00:00:00:08", mtu: 70000, sysctl: { "net.core.somaxconn": "99" } }
  expect((await fail(chain.tuning.run("ADD", { ...second, prevResult }))).msg).toContain("mtu")
  expectUnchanged(before, await takeSnapshot(chain.host))
  expectUnchanged(inside, await takeSnapshot(chain.pod))
  expect(await chain.sysctl("net/core/somaxconn")).toBe("500")
  await chain.tuning.del()
  expect(await chain.link()).toEqual(untouched)
})

/** The action of strace(1) at the `nth` system call of this name. */
interface Injection {
  verb: "ADD" | "DEL"
  name: string
  /** The action: "error=EIO" or "signal=KILL". */
  effect: string
  nth: number
}

/**
 * Calls the plugin under strace(1). Returns undefined if the plugin made fewer than `nth` such calls, and so succeeded.
 */
async function inject({ verb, name, effect, nth }: Injection, chain: TuningChain): Promise<Output | undefined> {
  const expressions = [`trace=${name}`, `inject=${name}:${effect}:when=${nth}`]
  const { output, text } = await runTraced(chain.tuning, verb, expressions)
  return /INJECTED|killed by SIGKILL/.test(text) ? output : undefined
}

/**
 * Creates a chain that changes every setting, and a function that throws unless all settings have their original
 * values.
 */
async function untouchedChain() {
  const chain = await TuningChain.create(everything)
  await chain.host.exec("mkdir", ["/run/cni/tuning"])
  const [host, pod] = [await takeSnapshot(chain.host), await takeSnapshot(chain.pod)]
  const somaxconn = await chain.sysctl("net/core/somaxconn")
  const expectUntouched = async () => {
    expectUnchanged(host, await takeSnapshot(chain.host))
    expectUnchanged(pod, await takeSnapshot(chain.pod))
    expect(await chain.sysctl("net/core/somaxconn")).toBe(somaxconn)
  }
  return { chain, expectUntouched }
}

test.each([
  ["sendto", "ENOBUFS"],
  ["rename", "EIO"],
])("an ADD in which any call of %s fails has changed nothing", async (name, errno) => {
  const { chain, expectUntouched } = await untouchedChain()
  await using _ = chain
  let nth = 1
  for (;;) {
    const output = await inject({ verb: "ADD", name, effect: `error=${errno}`, nth }, chain)
    if (!output) break
    expect({ nth, exitCode: output.exitCode, stdout: output.stdout }).toMatchObject({
      exitCode: 1,
      stdout: expect.stringContaining(errno),
    })
    await expectUntouched()
    nth++
  }
  expect(nth).toBeGreaterThan(1)
})

test.each(["sendto", "write", "rename", "unlink", "setns"])(
  "an ADD killed at any call of %s is undone by the next DEL",
  async (name) => {
    const { chain, expectUntouched } = await untouchedChain()
    await using _ = chain
    let nth = 1
    for (; await inject({ verb: "ADD", name, effect: "signal=KILL", nth }, chain); nth++) {
      await chain.tuning.del()
      await expectUntouched()
    }
    expect(nth).toBeGreaterThan(1)
  },
)

test.each(["sendto", "write", "unlink"])("a DEL killed at any call of %s is completed by the next", async (name) => {
  const { chain, expectUntouched } = await untouchedChain()
  await using _ = chain
  let nth = 1
  for (;;) {
    await chain.tuning.add()
    if (!(await inject({ verb: "DEL", name, effect: "signal=KILL", nth }, chain))) break
    await chain.tuning.del()
    await expectUntouched()
    nth++
  }
  await expectUntouched()
  expect(nth).toBeGreaterThan(1)
})
