/**
 * Suspends a machine on which the daemon of dhcp has a lease, which ends in the meantime: the daemon has to ask for another at once
 * when the machine goes on. Debian's kernel under QEMU; needs what `main.ts` needs.
 *
 *   bun integration/vm/suspend.ts
 */
import { join } from "node:path"
import { execa } from "execa"
import { builtPlugins, TemporaryDirectory } from "../lab/mod.ts"
import { debianKernel } from "./debian-kernel.ts"
import { makeInitramfs } from "./initramfs.ts"

const title = "a lease that ended while the machine was suspended is lost when it goes on, and another one is asked for"

/** Runs the machine. Returns the faults of its console, or none. */
async function suspend(): Promise<string[]> {
  await using scratch = await TemporaryDirectory.create("cni-vm-suspend")
  const { image, modules } = await debianKernel()
  const settings = { share: "none", reports: "", modules, checkout: "" }
  const contents = { init: "suspend.sh", files: [join(builtPlugins, "dhcp"), join(import.meta.dir, "dhcp-scene.sh")] }
  const initramfs = await makeInitramfs(scratch.path, settings, ["veth"], contents)
  const command = [
    ...["qemu-system-x86_64", "-accel", "tcg", "-m", "512", "-nodefaults", "-display", "none", "-serial", "stdio"],
    ...[
      "-no-reboot",
      "-kernel",
      image,
      "-initrd",
      initramfs,
      "-append",
      "console=ttyS0 quiet panic=-1 no_console_suspend",
    ],
  ]
  const { stdout } = await execa("setpriv", ["--pdeathsig", "KILL", ...command], {
    stdin: "ignore",
    reject: false,
    timeout: 600_000,
    killSignal: "SIGKILL",
  })
  return faultsIn(stdout.replaceAll("\r", ""))
}

function faultsIn(text: string): string[] {
  console.log(text)
  const after = text.slice(text.search(/^resumed at/m))
  const at = (what: string) => Number(new RegExp(`^${what} at ([0-9.]+) `, "m").exec(text)?.[1])
  const expectations = {
    "there was a lease": /"address": "10\.1\.2\.[56]/.test(text),
    "the machine was suspended for longer than the lease": at("resumed") - at("suspended") > 10,
    "the daemon says that the lease is lost": /c1\/n\/eth0: lost 10\.1\.2\..* has expired/.test(after),
    "the server is asked for another": /^udhcpd: sending OFFER/m.test(after),
  }
  return Object.entries(expectations).flatMap(([what, holds]) => (holds ? [] : [`not so: ${what}`]))
}

/** Returns the numbers of passed tests and of failures, as `main.ts` counts them. */
export async function testSuspend(): Promise<{ passed: number; failed: number }> {
  const faults = await suspend()
  console.log(`${faults.length === 0 ? "(pass)" : "(fail)"} ${title}`)
  for (const fault of faults) console.log(`  FAILED: ${fault}`)
  return { passed: faults.length === 0 ? 1 : 0, failed: faults.length }
}

if (import.meta.main) process.exitCode = (await testSuspend()).failed === 0 ? 0 : 1
